"""The body of a request: what stays the same first, so that it is cached; what varies last.

Everything here is a function of its arguments, so that the same request is sent as the same bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from takeaways.schemas.queues import Kind
from takeaways.workers.models.anthropic.facts import Facts
from takeaways.workers.models.prompts import prompt

FIRST_OUTPUT: Final = 32_000
SECOND_OUTPUT: Final = 64_000
"""How long an answer may be, and how long when it was cut. Thinking counts as part of it."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a model is asked: with a schema of the provider's, with what thinking and effort, with marks for its cache.

    None leaves a parameter out, which every server understands; without marks the instructions are plain text.
    """

    structured: bool = True
    thinking: str | None = None
    effort: str | None = None
    cached: bool = True

    def without(self, complaint: str) -> Manner | None:
        """This manner without what a provider's complaint is about; None where it is about nothing here."""
        said = complaint.lower()
        if self.thinking is not None and "thinking" in said:
            return replace(self, thinking=None)
        if self.effort is not None and "effort" in said:
            return replace(self, effort=None)
        if self.structured and any(
            word in said for word in ("output_config", "format", "schema", "structured")
        ):
            return replace(self, structured=False, effort=None)
        if self.cached and ("cach" in said or "system" in said):
            return replace(self, cached=False)
        return None


def manner_of(kind: Kind, facts: Facts) -> Manner:
    """Reading and quoting wants no thinking: it is switched off where the model lets us, else kept low.

    Merging weighs what was said when against each other: it is left to think for itself, at medium effort.
    """
    thinking = facts.thinking or frozenset()
    efforts = facts.efforts or frozenset()
    wanted, effort = ("disabled", "low") if kind is Kind.EXTRACTION else ("adaptive", "medium")
    return Manner(
        structured=facts.structured is not False,
        thinking=wanted if wanted in thinking else None,
        effort=effort if effort in efforts else None,
    )


def output_limits(window: int, facts: Facts) -> tuple[int, int]:
    """How many tokens an answer may take, and how many when it was cut. A step leaves half of the window."""
    most = min(window // 2, facts.most_output or window // 2)
    return min(FIRST_OUTPUT, most), min(SECOND_OUTPUT, most)


def instructions(kind: Kind, schema: dict[str, Any], *, structured: bool) -> str:
    """What the model is told before it is shown anything; with the schema where the provider takes none."""
    told = prompt(kind.value)
    if structured:
        return told
    return f"{told}\n\n{prompt('schema').replace('{schema}', json.dumps(schema, separators=(',', ':')))}"


def body(
    model: str, kind: Kind, schema: dict[str, Any], turns: list[dict[str, Any]], manner: Manner
) -> dict[str, Any]:
    """A request without its `max_tokens`: what `count_tokens` is asked about, too."""
    told = instructions(kind, schema, structured=manner.structured)
    marked = [{"type": "text", "text": told, "cache_control": {"type": "ephemeral"}}]
    made: dict[str, Any] = {"model": model, "system": marked if manner.cached else told, "messages": turns}
    config: dict[str, Any] = {}
    if manner.effort is not None:
        config["effort"] = manner.effort
    if manner.structured:
        config["format"] = {"type": "json_schema", "schema": schema}
    if config:
        made["output_config"] = config
    if manner.thinking is not None:
        made["thinking"] = {"type": manner.thinking}
    return made


def first_turn(material: str) -> list[dict[str, Any]]:
    """The material, and behind it that it is over: what stands last weighs most."""
    return [{"role": "user", "content": f"{material}\n{prompt('closing')}"}]


def repair_turn(turns: list[dict[str, Any]], answer: str, problem: str) -> list[dict[str, Any]]:
    """The conversation so far, the answer that cannot be used, and why. An empty answer is left out: no turn may be."""
    told = prompt("repair").replace("{problem}", problem)
    if not answer.strip():
        last = turns[-1]
        return [*turns[:-1], {**last, "content": f"{last['content']}\n\n{told}"}]
    return [*turns, {"role": "assistant", "content": answer.rstrip()}, {"role": "user", "content": told}]
