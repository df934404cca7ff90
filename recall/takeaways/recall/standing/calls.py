"""Answering one call of the tool `memory`: replay, evaluate, write, count and keep the answer in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from takeaways.recall.standing import answers
from takeaways.recall.standing.caps import Caps
from takeaways.recall.standing.codes import Code, Refused
from takeaways.recall.standing.guard import Scan
from takeaways.recall.standing.request import Request, Target, read, target_of
from takeaways.recall.standing.rules import Change, applied
from takeaways.recall.standing.store import Answered, Author, Held, Key, Work
from takeaways.schemas.ids import digest

MOST_FAILURES: Final = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """A call: what the model wrote, for whom, and how a repeat and a turn are told."""

    arguments: object
    agent_id: str
    user_id: str | None
    call_id: str | None
    turn_id: str | None
    expected_version: int | None


_OWNERLESS: Final = frozenset({Code.INVALID_TARGET, Code.DISABLED, Code.NO_USER})


class Calls:
    """Answers calls by the caps and the scan that hold here. `limit` is the cap of a note."""

    def __init__(self, caps: Caps, limit: Callable[[Key], int], scan: Scan) -> None:
        self._caps = caps
        self._limit = limit
        self._scan = scan

    def answer(self, work: Work, asked: Asked) -> dict[str, Any]:
        """The answer to a call. Raises what the store raises, and then nothing was written."""
        target, request, why = self._read(asked)
        key = None if why is not None and why.code in _OWNERLESS else self._key_of(target, asked)
        # The lock of the note goes first: of two calls with one id the second then sees the first's answer.
        held = work.read(key) if key is not None else None
        request_hash = _hash(asked)
        if asked.call_id is not None and (old := work.answered(asked.agent_id, asked.call_id)) is not None:
            if old.request_hash == request_hash:
                return old.answer
            mismatch = Refused(Code.IDEMPOTENCY_MISMATCH, "This call id was used before, for another change.")
            return answers.refused(target, mismatch, held, self._limit_of(key), self._scan)
        answer = self._evaluated(work, asked, target, request, why, key, held)
        if asked.call_id is not None and answer["code"] != Code.CONFLICT:
            owner = key or Key(Target.MEMORY, asked.agent_id)
            work.keep_answer(asked.agent_id, asked.call_id, owner, Answered(request_hash, answer))
        return answer

    def _read(self, asked: Asked) -> tuple[Target, Request | None, Refused | None]:
        target = Target.MEMORY
        try:
            target = target_of(asked.arguments)
            request = read(asked.arguments)
            target = request.target
            if target not in self._caps.on:
                raise Refused(Code.DISABLED, f"The notes '{target}' are switched off here.")
            if target is Target.USER and asked.user_id is None:
                raise Refused(
                    Code.NO_USER, "Nobody is named in this conversation, so there are no notes about them."
                )
        except Refused as why:
            return target, None, why
        return target, request, None

    def _evaluated(
        self,
        work: Work,
        asked: Asked,
        target: Target,
        request: Request | None,
        why: Refused | None,
        key: Key | None,
        held: Held | None,
    ) -> dict[str, Any]:
        limit = self._limit_of(key)
        if request is not None and key is not None and held is not None:
            try:
                if not limit:
                    raise Refused(Code.DISABLED, f"The notes '{target}' are switched off here.")
                change = applied(held.entries, request, cap=limit, scan=self._scan)
                return self._written(work, asked, key, held, change, limit)
            except Refused as refused:
                why = refused
        assert why is not None  # noqa: S101 - there is a request, or a reason why not
        counts = asked.turn_id is not None and why.code is not Code.CONFLICT
        if counts and work.count_failure(asked.agent_id, asked.turn_id or "") > MOST_FAILURES:
            return answers.stopped(target, held, limit)
        return answers.refused(target, why, held, limit, self._scan)

    def _written(
        self, work: Work, asked: Asked, key: Key, held: Held, change: Change, limit: int
    ) -> dict[str, Any]:
        changed = change.entries != held.entries
        if changed:
            if asked.expected_version is not None and asked.expected_version != held.version:
                raise Refused(
                    Code.CONFLICT,
                    f"The notes are at version {held.version}, not {asked.expected_version}. Read them and try again.",
                )
            work.put(key, held.version, change.entries, Author("tool", asked.agent_id, asked.call_id))
            held = Held(held.version + 1, change.entries)
        if asked.turn_id is not None:
            work.clear_failures(asked.agent_id, asked.turn_id)
        return answers.done(key.target, change, held, limit, self._scan, changed=changed)

    def _key_of(self, target: Target, asked: Asked) -> Key | None:
        owner = asked.agent_id if target is Target.MEMORY else asked.user_id
        return None if owner is None or target not in self._caps.on else Key(target, owner)

    def _limit_of(self, key: Key | None) -> int:
        return 0 if key is None else self._limit(key)


def _hash(asked: Asked) -> str:
    """The same for the same request, whatever the order of its fields."""
    try:
        return digest(asked.arguments, asked.user_id)
    except (TypeError, ValueError, RecursionError):
        return digest(repr(asked.arguments), asked.user_id)
