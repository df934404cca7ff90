"""What a provider is sent: prompts with a version, a schema it takes, and no parameter that it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from takeaways.schemas.memories import Lesson
from takeaways.schemas.queues import Kind
from takeaways.workers.models.answers import ConsolidationAnswer, ExtractionAnswer, Fate
from takeaways.workers.models.anthropic.body import (
    FIRST_OUTPUT,
    SECOND_OUTPUT,
    Manner,
    body,
    first_turn,
    manner_of,
    output_limits,
    repair_turn,
)
from takeaways.workers.models.anthropic.facts import Facts
from takeaways.workers.models.anthropic.schema import output_schema
from takeaways.workers.models.prompts import NAMES, prompt, prompts_version
from takeaways.workers.models.tokens import estimate
from takeaways.workers.testing.claude import Served
from takeaways.workers.testing.claude.checks import check

THINKERS = frozenset({"adaptive", "disabled"})
ANSWERS: dict[Kind, type[BaseModel]] = {
    Kind.EXTRACTION: ExtractionAnswer,
    Kind.CONSOLIDATION: ConsolidationAnswer,
}


@pytest.mark.parametrize(
    ("kind", "facts", "manner"),
    [
        (
            Kind.EXTRACTION,
            Facts(thinking=THINKERS, efforts=frozenset({"low"})),
            Manner(True, "disabled", "low"),
        ),
        (Kind.CONSOLIDATION, Facts(thinking=THINKERS, efforts=frozenset({"low"})), Manner(True, "adaptive")),
        (Kind.EXTRACTION, Facts(thinking=frozenset({"adaptive"})), Manner(True)),
        (Kind.EXTRACTION, Facts(thinking=frozenset({"enabled"}), structured=False), Manner(False)),
        (Kind.CONSOLIDATION, Facts(), Manner(True)),
    ],
)
def test_a_model_is_asked_only_for_what_it_can_do(kind: Kind, facts: Facts, manner: Manner) -> None:
    """`disabled` is an error where thinking is always on, `adaptive` where it does not exist."""
    assert manner_of(kind, facts) == manner


def test_a_complaint_takes_away_what_it_is_about_until_nothing_is_left() -> None:
    """A gateway that refuses one parameter after the other is asked a few times, never for ever."""
    manner: Manner | None = Manner(True, "disabled", "low")
    complaints = [
        "thinking.type: unknown",
        "effort is not supported",
        "output_config: Extra inputs are not permitted",
        "system.0.cache_control: Extra inputs are not permitted",
    ]

    for complaint in complaints:
        assert manner is not None
        manner = manner.without(complaint)

    assert manner == Manner(False, None, None, cached=False)
    assert manner.without("output_config: Extra inputs are not permitted") is None
    assert Manner().without("messages.0.content: too odd") is None
    assert Manner().without("system: Input should be a valid string") == Manner(cached=False)


@pytest.mark.parametrize(
    ("window", "most", "limits"),
    [
        (1_000_000, 128_000, (FIRST_OUTPUT, SECOND_OUTPUT)),
        (1_000_000, None, (FIRST_OUTPUT, SECOND_OUTPUT)),
        (32_000, 128_000, (16_000, 16_000)),
        (64_000, 128_000, (FIRST_OUTPUT, 32_000)),
        (200_000, 8_000, (8_000, 8_000)),
    ],
)
def test_an_answer_fits_beside_a_full_step(window: int, most: int | None, limits: tuple[int, int]) -> None:
    """A step takes half of the window: answer and step together never go over."""
    assert output_limits(window, Facts(most_output=most)) == limits


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("structured", [True, False])
@pytest.mark.parametrize("cached", [True, False])
def test_the_api_takes_every_request_that_we_make(kind: Kind, structured: bool, cached: bool) -> None:
    """Roles alternate, no turn is empty, the schema has no word that the server does not know."""
    served = Served("m", structured=structured)
    schema = output_schema(ANSWERS[kind])
    turns = first_turn("=== room r1 ===\n")
    for answer in ("", " \n", "no JSON"):
        turns = repair_turn(turns, answer, "the answer is empty")
        made = body("m", kind, schema, turns, Manner(structured=structured, cached=cached))

        check({**made, "max_tokens": 1_000}, served)


def test_a_repair_shows_the_answer_and_what_is_wrong_with_it() -> None:
    """Two roles alternate; where there was no answer the complaint joins the question."""
    shown = repair_turn(first_turn("material"), "{oops", "the JSON is broken")
    joined = repair_turn(first_turn("material"), "", "the answer is empty")

    assert [turn["role"] for turn in shown] == ["user", "assistant", "user"]
    assert shown[1]["content"] == "{oops"
    assert "the JSON is broken" in shown[2]["content"]
    assert [turn["role"] for turn in joined] == ["user"]
    assert "the answer is empty" in joined[0]["content"]


def test_the_schema_names_every_variant_and_nothing_that_only_costs_tokens() -> None:
    """It goes with every call; what tells edits apart must not be left out by the model."""
    schema = output_schema(ConsolidationAnswer)
    text = json.dumps(schema)

    variants = {
        one["properties"]["op"]["const"]: one for one in schema["properties"]["edits"]["items"]["anyOf"]
    }
    assert set(variants) == {"create", "update", "delete"}
    assert all("op" in variant["required"] for variant in variants.values())
    assert "title" in variants["create"]["properties"]
    assert set(schema["$defs"]) == {"Lesson", "NewLine"}, "the others are used once"
    assert '"title": "' not in text
    assert estimate(text) < 0.55 * estimate(json.dumps(ConsolidationAnswer.model_json_schema()))


@pytest.mark.parametrize("kind", list(Kind))
def test_the_same_request_is_the_same_bytes(kind: Kind) -> None:
    """A provider's cache compares bytes."""
    made = [
        json.dumps(body("m", kind, output_schema(ANSWERS[kind]), first_turn("x"), Manner())) for _ in range(2)
    ]

    assert made[0] == made[1]


# --- prompts --------------------------------------------------------------------------------------


def test_the_version_changes_with_every_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job says which words it was asked with."""
    versions = {prompts_version(), prompts_version("a schema"), prompts_version("another schema")}

    assert len(versions) == 3
    assert all(version.startswith("claude-") for version in versions)


@pytest.mark.parametrize("name", NAMES)
def test_every_prompt_is_packaged_and_holds_no_leftover(name: str) -> None:
    """A prompt that a wheel leaves out fails only in production."""
    assert prompt(name)
    assert "TODO" not in prompt(name)


def test_the_prompts_name_every_kind_and_every_fate() -> None:
    """A kind that the schema has and the prompt does not explain is used at random."""
    assert [kind for kind in Lesson if f"`{kind}`" not in prompt("extraction")] == []
    assert [fate for fate in Fate if f"`{fate}`" not in prompt("consolidation")] == []


def test_the_prompts_name_the_fields_of_the_answers() -> None:
    """They are what a provider without schemas goes by."""

    def fields(schema: Any) -> set[str]:
        inner = [value for value in schema.get("$defs", {}).values() if "properties" in value]
        return set(schema["properties"]) | {name for one in inner for name in one["properties"]}

    for kind, answer in ANSWERS.items():
        missing = [name for name in fields(answer.model_json_schema()) if name not in prompt(kind.value)]
        assert missing == []
