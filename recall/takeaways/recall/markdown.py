"""The memory as Markdown. The data is the truth, this is a view: equal data gives equal bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from takeaways.recall.escape import blocks, heading, shown
from takeaways.recall.ranking import ranked
from takeaways.recall.tokens import Count, count
from takeaways.schemas.memories import Line, Memory, Section, SessionSummary

SUMMARY_BUDGET_TOKENS: Final = 2_000
MEMORY_PATH: Final = "agent-memory/MEMORY.md"
_UNTITLED: Final = "(no title)"
_TITLE: Final = "# Summary\n"
_RULES: Final = "\n## Rules and corrections, to be followed\n"
_BETWEEN: Final = " ;,.…"
_BEGINNING: Final = 40  # characters of a line that say which one it is
_MISFITS: Final = 32
_MOST_CHARACTERS_A_TOKEN: Final = 16


def memory_md(memory: Memory) -> str:
    """MEMORY.md: everything, by topic, one list item for each line."""
    return "\n".join(["# Memory\n", *(_section_md(section) for section in memory.sections)])


def session_summary_md(summary: SessionSummary) -> str:
    """What one room was about, for `session_summaries/`."""
    room = shown(summary.room_id)
    title = heading(summary.title) or f"Room {room}"
    text = blocks(summary.text)
    return f"# {title}\n\nRoom {room}, last active {instant(summary.last_activity_ms)}.\n\n{text}\n"


def summary_md(memory: Memory, *, budget_tokens: int = SUMMARY_BUDGET_TOKENS, count: Count = count) -> str:
    """The index of the memory within `budget_tokens`.

    Rules and corrections stand first and in full, then each topic with its gist and, where there is
    room, its pinned and most useful lines (`ranking`). The order is the memory's own, so a small change is a small
    difference. The last sentence says what was left out and where it is.
    """
    pieces = tuple(_ranked(memory))
    everything = _composed(memory, pieces, ())
    # Counting is the dear part, and no long memory need be counted to see that it does not fit.
    if len(everything) <= budget_tokens * _MOST_CHARACTERS_A_TOKEN and count(everything) <= budget_tokens:
        return everything
    chosen = _chosen(pieces, budget_tokens - count(_composed(memory, (), pieces)) - count(_RULES), count)
    while True:
        taken = set(chosen)
        text = _composed(memory, chosen, [piece for piece in pieces if piece not in taken])
        if not chosen or count(text) <= budget_tokens:
            return text
        chosen.pop()


def instant(at_ms: int) -> str:
    """An instant for people and models: to the minute, in UTC."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError):  # before the calendar's first day, or behind its last
        return "an unknown time"


@dataclass(frozen=True, slots=True)
class _Piece:
    """Something that the summary shows or leaves out: a rule, a topic (`line` is None) or a line of one."""

    is_rule: bool
    section: int
    line: int | None
    text: str


def _gist(section: Section) -> str:
    """The gist as it is shown: nothing where it only says, whole or clipped, what lines say."""
    gist = shown(section.gist)
    return "" if gist and not _beyond(gist, section) else gist


def _beyond(gist: str, section: Section) -> str:
    """What a gist says beyond the lines: those are taken out of it, and the beginning of one at its end."""
    rest = gist
    lines = sorted((shown(line.text) for line in section.lines), key=len, reverse=True)
    for line in lines:
        rest = rest.replace(line, "")
    rest = rest.strip(_BETWEEN)
    return "" if any(line.startswith(rest) for line in lines) else rest


def _section_md(section: Section) -> str:
    gist = _gist(section)
    items = "".join(f"- {shown(line.text)}\n" for line in section.lines)
    return f"## {heading(section.title) or _UNTITLED}\n\n" + (f"{gist}\n\n" if gist else "") + items


def _ranked(memory: Memory) -> Iterator[_Piece]:
    """Everything that could be shown, the most needed first. What another piece says already is no piece."""
    newest = {
        place: max(line.said_at_ms for line in section.lines) for place, section in enumerate(memory.sections)
    }
    lines = [
        (memory.sections[section].lines[line], section, line)
        for section, line in ranked(memory, max(newest.values(), default=0), fresh=True)
    ]
    rules = [found for found in lines if found[0].kind.must_obey]
    rules.sort(key=lambda found: (found[0].pinned, found[0].said_at_ms, found[1], found[2]), reverse=True)

    said: set[str] = set()
    yield from _unsaid(rules, said, is_rule=True)
    for place in sorted(newest, key=lambda place: (-newest[place], place)):
        section = memory.sections[place]
        gist = _gist(section)
        yield _Piece(
            False,
            place,
            None,
            f"\n## {heading(section.title) or _UNTITLED}\n" + (f"{gist}\n" if gist else ""),
        )
        if section.gist and not gist:  # the lines that it repeats stand in its place, and in its rank
            repeated = shown(section.gist)
            yield from _unsaid(
                [one for one in lines if one[1] == place and _told(one[0], repeated)], said, is_rule=False
            )
    yield from _unsaid([found for found in lines if not found[0].kind.must_obey], said, is_rule=False)


def _told(line: Line, gist: str) -> bool:
    """Whether a gist tells the line, at least its beginning."""
    return not line.kind.must_obey and shown(line.text)[:_BEGINNING] in gist


def _unsaid(lines: Iterable[tuple[Line, int, int]], said: set[str], *, is_rule: bool) -> Iterator[_Piece]:
    for line, section, place in lines:
        text = shown(line.text)
        if text not in said:
            said.add(text)
            yield _Piece(is_rule, section, place, f"- {text}\n")


def _chosen(pieces: Iterable[_Piece], tokens: int, count: Count) -> list[_Piece]:
    """The pieces that fit into `tokens`, in their rank; a line only where its topic is shown."""
    chosen: list[_Piece] = []
    topics: set[int] = set()
    misfits = 0
    for piece in pieces:
        is_topic = piece.line is None
        if not piece.is_rule and not is_topic and piece.section not in topics:
            continue
        cost = count(piece.text)
        if cost <= tokens:
            tokens -= cost
            chosen.append(piece)
            topics.update({piece.section} if is_topic else ())
        elif not (piece.is_rule or is_topic) and (misfits := misfits + 1) == _MISFITS:
            break  # what is left of the budget is too small to look on
    return chosen


def _composed(memory: Memory, pieces: Iterable[_Piece], left_out: Iterable[_Piece]) -> str:
    rules: list[_Piece] = []
    topics: dict[int, list[_Piece]] = {}
    for piece in pieces:
        (rules if piece.is_rule else topics.setdefault(piece.section, [])).append(piece)
    text = [_TITLE]
    if rules:
        text += [_RULES, *_in_order(rules)]
    for place in range(len(memory.sections)):
        text += _in_order(topics.get(place, ()))
    return "".join([*text, _account(left_out)])


def _in_order(pieces: Iterable[_Piece]) -> list[str]:
    return [
        piece.text
        for piece in sorted(
            pieces, key=lambda piece: (piece.section, -1 if piece.line is None else piece.line)
        )
    ]


def _account(left_out: Iterable[_Piece]) -> str:
    """What was left out, in words; nothing where all is shown."""
    left = list(left_out)
    numbers = (
        (sum(piece.is_rule for piece in left), "rule"),
        (sum(piece.line is None for piece in left), "topic"),
        (sum(not piece.is_rule and piece.line is not None for piece in left), "line"),
    )
    words = [f"{number} {noun}{'' if number == 1 else 's'}" for number, noun in numbers if number]
    if not words:
        return ""
    return f"\nLeft out here for want of room: {', '.join(words)}. Your whole memory has them.\n"
