"""What a person does to a memory: pin, write, take out, roll back. Each is a revision like any other.

A running consolidation sees that the revision is another one and plans again; the next one finds what a
person wrote pinned, so that only a person changes it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, select, update

from takeaways.recall.store import load_memory
from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.errors import BadInput, NotFound
from takeaways.schemas.ids import derived
from takeaways.schemas.memories import Lesson, Line, Memory, Section, section_id
from takeaways.schemas.secrets import find
from takeaways.schemas.tables import agents, candidates
from takeaways.workers.consolidation import store
from takeaways.workers.consolidation.account import (
    Account,
    How,
    difference,
    gist_of,
    in_order,
    retirements,
    said_in_order,
)
from takeaways.workers.consolidation.became import became
from takeaways.workers.memories.history import line_named, load_revision
from takeaways.workers.text.placeholders import is_placeholder
from takeaways.workers.text.plain import plain_line, plain_title, title_key

Change = Callable[[Connection, Memory], Memory]


@dataclass(frozen=True, slots=True)
class By:
    """Who asks for a change, and why, as the revision's account tells it."""

    author: str
    why: str = ""


def pin(database: Database, agent_id: str, lines: Iterable[str], by: By, *, pinned: bool = True) -> int:
    """Protect lines, named by the beginnings of their ids: no model edit and no trimming takes them.

    With `pinned=False` they are as others again. Returns the new revision. Raises `BadInput` where a line is
    not there or nothing would change.
    """

    def change(connection: Connection, memory: Memory) -> Memory:
        named = {line_named(connection, agent_id, name).id for name in lines}
        return _with_lines(
            memory, lambda line: line.model_copy(update={"pinned": pinned}) if line.id in named else line
        )

    return _revise(database, agent_id, "pin" if pinned else "unpin", by, change)


def rewrite(
    database: Database, agent_id: str, line: str, text: str, by: By, *, kind: Lesson | None = None
) -> int:
    """Say something else in a line, and pin it. It goes on resting on what it rested on, also in an erasure."""
    wording = _worded(text)

    def change(connection: Connection, memory: Memory) -> Memory:
        named = line_named(connection, agent_id, line)
        said = {"text": wording, "pinned": True, "kind": kind or named.kind}
        return _with_lines(memory, lambda one: one.model_copy(update=said) if one.id == named.id else one)

    return _revise(database, agent_id, "edit", by, change)


def add(
    database: Database, agent_id: str, title: str, text: str, by: By, *, kind: Lesson = Lesson.FACT
) -> int:
    """Write a pinned line of one's own, in the section of that title or in a new one. It rests on no message."""
    wording, heading = _worded(text), plain_title(title)
    if is_placeholder(heading):
        raise BadInput("a section's title has to say something")

    def change(connection: Connection, memory: Memory) -> Memory:
        at_ms = now_ms(connection)
        line = Line(
            id=derived("l", "by hand", agent_id, wording, str(at_ms)),
            kind=kind,
            text=wording,
            said_at_ms=at_ms,
            pinned=True,
        )
        known = next((one for one in memory.sections if title_key(one.title) == title_key(heading)), None)
        if known is None:
            made = Section(
                id=section_id(heading, (line.id,)), title=heading, gist=gist_of([line]), lines=(line,)
            )
            return Memory(sections=in_order([*memory.sections, made]))
        longer = known.model_copy(update={"lines": said_in_order([*known.lines, line])})
        return Memory(sections=tuple(longer if one is known else one for one in memory.sections))

    return _revise(database, agent_id, "edit", by, change)


def remove(database: Database, agent_id: str, lines: Iterable[str], by: By) -> int:
    """Take lines out, pinned or not. What they rested on is settled, so no consolidation brings them back."""

    def change(connection: Connection, memory: Memory) -> Memory:
        named = {line_named(connection, agent_id, name).id for name in lines}
        return _with_lines(memory, lambda line: None if line.id in named else line)

    return _revise(database, agent_id, "edit", by, change)


def roll_back(database: Database, agent_id: str, number: int, by: By, *, relearn: bool = False) -> int:
    """Make the memory what it was in revision `number`, as a new revision.

    Lines that rest on what was withdrawn since (a message was edited or deleted) do not come back. What was
    learned after `number` stays out, unless `relearn`: then it waits for the next consolidation again.
    """

    def change(connection: Connection, memory: Memory) -> Memory:
        then = load_revision(connection, agent_id, number).memory
        standing = set(
            connection.execute(
                select(candidates.c.candidate_id).where(
                    candidates.c.agent_id == agent_id, candidates.c.state != "withdrawn"
                )
            ).scalars()
        )
        return _with_lines(then, lambda line: line if standing.issuperset(line.candidates) else None)

    def afterwards(connection: Connection) -> None:
        if relearn:
            _wait_again(connection, agent_id, number)

    return _revise(database, agent_id, "rollback", by, change, afterwards, allow_same=relearn)


def _wait_again(connection: Connection, agent_id: str, number: int) -> None:
    resting = {
        id_
        for section in load_memory(connection, agent_id).memory.sections
        for line in section.lines
        for id_ in line.candidates
    }
    settled = connection.execute(
        select(candidates.c.candidate_id).where(
            candidates.c.agent_id == agent_id,
            candidates.c.settled_revision > number,
            candidates.c.state.not_in(("waiting", "quarantined", "withdrawn")),
        )
    ).scalars()
    again = sorted(set(settled) - resting)
    connection.execute(
        update(candidates)
        .where(candidates.c.agent_id == agent_id, candidates.c.candidate_id.in_(again))
        .values(state="waiting", reason=None, settled_by=None, settled_revision=None)
    )
    connection.execute(
        update(agents)
        .where(agents.c.agent_id == agent_id)
        .values(
            candidates_total=agents.c.candidates_total + len(again),
            wake_at_ms=now_ms(connection),
        )
    )


def _revise(
    database: Database,
    agent_id: str,
    made_by: str,
    by: By,
    change: Change,
    afterwards: Callable[[Connection], None] = lambda connection: None,
    *,
    allow_same: bool = False,
) -> int:
    with database.write() as connection:
        known = connection.execute(
            select(agents.c.agent_id).where(agents.c.agent_id == agent_id).with_for_update()
        ).first()
        if known is None:
            raise NotFound(f"no agent {agent_id} is known here")
        current = load_memory(connection, agent_id)
        memory = change(connection, current.memory)
        if memory == current.memory and not allow_same:
            raise BadInput(f"agent {agent_id!r}: that is what the memory says already")
        account = Account(
            changes=difference(current.memory, memory),
            retired=retirements(current.memory, memory, how=How.BY_HAND),
        )
        number = current.number + 1
        states = became(current.memory, memory, account)
        store.settle(connection, agent_id, states, settled_by=None, revision=number)
        store.save_revision(
            connection,
            agent_id,
            number,
            memory,
            account={**account.to_json(), "author": by.author, "why": by.why},
            made_by=made_by,
            job_id=None,
        )
        afterwards(connection)
        return number


def _with_lines(memory: Memory, changed: Callable[[Line], Line | None]) -> Memory:
    """The memory with each line as `changed` has it. A gist of lines that say something else is made anew."""
    sections: list[Section] = []
    for section in memory.sections:
        lines = tuple(line for one in section.lines if (line := changed(one)) is not None)
        if lines == section.lines:
            sections.append(section)
        elif lines:
            same_words = [line.text for line in lines] == [line.text for line in section.lines]
            gist = section.gist if same_words else gist_of(lines)
            sections.append(section.model_copy(update={"lines": lines, "gist": gist}))
    return Memory(sections=tuple(sections))


def _worded(text: str) -> str:
    wording = plain_line(text)
    if is_placeholder(wording):
        raise BadInput("a line has to say something")
    if find(wording):
        raise BadInput("the line holds a secret, and a memory is shown to models: leave it out")
    return wording
