"""Cutting a backlog into requests that fit: the room with the oldest unread message first, in order.

Short rooms share a request. A room that does not fit is split between messages, and the rest of it waits for
the next request. A split keeps a call with its result and a question with its answer wherever both fit.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from takeaways.schemas.transcripts import Said, ToolCall, ToolResult
from takeaways.workers.extraction.render import (
    Caps,
    Reader,
    block,
    excerpt,
    quoted,
    render,
    room_foot,
    room_head,
)
from takeaways.workers.extraction.shorten import cut, shorten
from takeaways.workers.models.requests import Excerpt, ExtractionRequest, RoomPart, Span
from takeaways.workers.models.tokens import estimate

Count = Callable[[str], int]
Key = tuple[str, str]

_LONGEST_LABEL: Final = "999999"
_AHEAD: Final = 64
"""How many messages after a split are searched for the result of a call before it."""
_CORRECTIONS: Final = 12


@dataclass(frozen=True, slots=True)
class RoomBacklog:
    """What is unread in one room. `previous_summary` is "" for a room never read."""

    room_id: str
    title: str
    previous_summary: str
    said: tuple[Said, ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """One request, the (room id, message id) of every message it covers, and its tokens.

    Messages that hold nothing to show are covered too. When nothing else is, the request has no rooms and
    needs no model.
    """

    request: ExtractionRequest
    message_keys: tuple[Key, ...]
    tokens: int


def next_request(
    rooms: Sequence[RoomBacklog], budget_tokens: int, count: Count = estimate, caps: Caps | None = None
) -> Planned:
    """The request that reads the oldest of the backlog: at least one message, at most `budget_tokens`.

    A message that is larger than a whole request is shortened to fit. The same backlog and budget give the
    same request. Below some 200 tokens not even the header of a message fits; such a budget is exceeded.
    """
    return _next(_queue(rooms, count, caps), budget_tokens, count)


def plan(
    rooms: Sequence[RoomBacklog], budget_tokens: int, count: Count = estimate, caps: Caps | None = None
) -> Iterator[Planned]:
    """All requests that a backlog makes, in order, as if no summary changed in between."""
    queue = _queue(rooms, count, caps)
    while queue:
        planned = _next(queue, budget_tokens, count)
        covered: dict[str, int] = {}
        for room_id, _ in planned.message_keys:
            covered[room_id] = covered.get(room_id, 0) + 1
        advanced = [room.after(covered.pop(room.room_id, 0)) for room in queue if room.room_id in covered]
        queue = [room for room in queue if room.room_id not in {one.room_id for one in advanced}]
        queue += [room for room in advanced if room.left]
        heapq.heapify(queue)
        yield planned


@dataclass(frozen=True, slots=True)
class _Measured:
    """A message as it would be shown, and its tokens under the longest label."""

    said: Said
    spans: tuple[Span, ...]
    tokens: int


class _Room:
    """The unread messages of a room, measured as far as somebody looked."""

    def __init__(self, backlog: RoomBacklog, count: Count, caps: Caps) -> None:
        self.room_id = backlog.room_id
        self._backlog = backlog
        self._said = sorted(backlog.said, key=lambda one: one.sort_key)
        self._measured: list[_Measured] = []
        self._reader = Reader(caps)
        self._count = count
        self._start = 0

    def __lt__(self, other: _Room) -> bool:
        return self._oldest < other._oldest

    @property
    def _oldest(self) -> tuple[int, str]:
        return self._said[self._start].said_at_ms, self.room_id

    @property
    def left(self) -> int:
        return len(self._said) - self._start

    def after(self, covered: int) -> _Room:
        """This room without the first `covered` of its unread messages."""
        self._start += covered
        return self

    def __getitem__(self, place: int) -> _Measured:
        place += self._start
        while len(self._measured) <= place:
            said = self._said[len(self._measured)]
            self._measured.append(self._measure(said, self._reader.spans(said)))
        return self._measured[place]

    def _measure(self, said: Said, spans: tuple[Span, ...]) -> _Measured:
        if not spans:
            return _Measured(said, spans, 0)
        return _Measured(said, spans, self._count(block(excerpt(said, f"m{_LONGEST_LABEL}", spans))))

    def fixed(self, budget: int) -> int:
        """Tokens of the room's fences, title and summary."""
        head = room_head(f"r{_LONGEST_LABEL}", self._backlog.title, self._summary(budget))
        return self._count(head) + self._count(room_foot(f"r{_LONGEST_LABEL}"))

    def _summary(self, budget: int) -> str:
        """The summary so far, within a quarter of the request as it will stand there."""
        most = budget // 4
        summary = shorten(self._backlog.previous_summary, most)
        while summary and self._count(quoted(summary)) > most:
            summary = cut(summary, len(summary) * 3 // 4)
        return summary

    def fitting(self, tokens: int) -> int:
        """How many messages from the first on take at most `tokens` together."""
        for place in range(self.left):
            tokens -= self[place].tokens
            if tokens < 0:
                return place
        return self.left

    def shortened(self, tokens: int) -> _Measured:
        """The first message, cut so that it takes at most `tokens`, or as few as it can."""
        said = self[0].said
        low, high = 0, tokens
        best = self._measure(said, self._reader.spans(said, 0))
        while low < high:
            middle = (low + high + 1) // 2
            tried = self._measure(said, self._reader.spans(said, middle))
            if tried.tokens <= tokens:
                low, best = middle, tried
            else:
                high = middle - 1
        return best

    def split(self, most: int, tokens: int) -> int:
        """How many of the first `most` messages to take when the room goes on: 0 where any split would part
        a call from its result, or a question from its answer, although both fit into `tokens`."""
        turn = next((place for place in range(most, 0, -1) if self._begins_turn(place)), 0)
        if turn and self._fits(turn, self._end_of_turn(turn), tokens):
            return turn
        whole = self._between_calls(most, tokens)
        return turn if turn and 2 * sum(self[place].tokens for place in range(turn)) >= tokens else whole

    def _begins_turn(self, place: int) -> bool:
        """Whether a person begins to speak here: what follows answers it."""
        return self._by_person(place) and not (place > 0 and self._by_person(place - 1))

    def _by_person(self, place: int) -> bool:
        said = self._said[self._start + place]
        return said.author.kind == "person" and not all(isinstance(part, ToolResult) for part in said.parts)

    def _end_of_turn(self, place: int) -> int:
        ahead = range(place + 1, min(self.left, place + _AHEAD))
        return next((later for later in ahead if self._begins_turn(later)), min(self.left, place + _AHEAD))

    def _fits(self, start: int, end: int, tokens: int) -> bool:
        for place in range(start, end):
            tokens -= self[place].tokens
            if tokens < 0:
                return False
        return True

    def _between_calls(self, most: int, tokens: int) -> int:
        """The last place up to `most` that parts no call from its result."""
        calls: dict[str, int] = {}
        bonds: dict[int, int] = {}
        for place in range(min(self.left, most + _AHEAD)):
            for part in self._said[self._start + place].parts:
                if isinstance(part, ToolCall) and part.id:
                    calls[part.id] = place
                elif isinstance(part, ToolResult) and (called := calls.get(part.call_id)) is not None:
                    bonds[place] = min(called, bonds.get(place, place))
        place = most
        for result in sorted(bonds, reverse=True):
            if result < place:
                break
            if bonds[result] < place and self._fits(bonds[result], result + 1, tokens):
                place = bonds[result]
        return place

    def part(self, label: int, budget: int, excerpts: tuple[Excerpt, ...]) -> RoomPart:
        return RoomPart(f"r{label}", self.room_id, self._backlog.title, self._summary(budget), excerpts)


def _queue(rooms: Sequence[RoomBacklog], count: Count, caps: Caps | None) -> list[_Room]:
    queue = [_Room(room, count, caps or Caps()) for room in rooms if room.said]
    heapq.heapify(queue)
    return queue


def _next(queue: list[_Room], budget: int, count: Count) -> Planned:
    aim = budget
    for _ in range(_CORRECTIONS):
        planned = _assembled(_chosen(queue, aim), budget, count)
        if planned.tokens <= budget or (len(planned.message_keys) <= 1 and aim < 200):
            break
        # A counter for which the whole is more than its parts: aim lower by what it went over.
        aim = aim * budget * 19 // (planned.tokens * 20)
    return planned


def _chosen(queue: list[_Room], budget: int) -> list[tuple[_Room, list[_Measured]]]:
    chosen: list[tuple[_Room, list[_Measured]]] = []
    left = budget
    waiting = list(queue)
    while waiting:
        room = heapq.heappop(waiting)
        room_left = left - room.fixed(budget)
        most = room.fitting(room_left)
        if most < room.left:
            first = not chosen
            if first and not most:
                return [(room, [room.shortened(room_left)])]
            if first or 2 * left > budget:
                taken = room.split(most, budget - room.fixed(budget)) or (most if first else 0)
                if taken:
                    chosen.append((room, [room[place] for place in range(taken)]))
            break
        messages = [room[place] for place in range(most)]
        chosen.append((room, messages))
        left = room_left - sum(message.tokens for message in messages)
    return chosen


def _assembled(chosen: list[tuple[_Room, list[_Measured]]], budget: int, count: Count) -> Planned:
    parts: list[RoomPart] = []
    keys: list[Key] = []
    label = 0
    for room, messages in chosen:
        excerpts: list[Excerpt] = []
        for message in messages:
            keys.append((room.room_id, message.said.message_id))
            if message.spans:
                label += 1
                excerpts.append(excerpt(message.said, f"m{label}", message.spans))
        if excerpts:
            parts.append(room.part(len(parts) + 1, budget, tuple(excerpts)))
    request = ExtractionRequest(tuple(parts))
    return Planned(request, tuple(keys), count(render(request)))
