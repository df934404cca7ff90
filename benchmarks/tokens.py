"""How many tokens are sent for each token of a conversation, by stage, from the first session to the last.

    python -m benchmarks.tokens [--data FOLDER]

LoCoMo's conv-26, one session as one run of the agent, in the order in which they took place. The real pipeline
decides when to extract and when to consolidate: as after days of silence, a consolidation follows each extraction.
`AnthropicModel` sends real requests to the stand-in Messages API on loopback, which counts what arrives. Behind it
answers what a language model took from this conversation (it comes with the data), or the offline model, which keeps
nearly every sentence and so shows the other end. Raw is every message rendered once, as a model is shown it.

The targets are for the former. Exits 1 when a target is missed, and 0 where there is no LoCoMo.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import structlog
from rich.console import Console
from rich.table import Table
from sqlalchemy import func, select

from benchmarks.learning import AGENT, Services
from benchmarks.locomo import WHERE, Conversation, conversations
from benchmarks.quality import ROOT, locomo_folder
from benchmarks.replay import ReplayModel
from takeaways.schemas.database import Database
from takeaways.schemas.events import Event, encode
from takeaways.schemas.migrations import migrate
from takeaways.schemas.queues import FIELD, RUNS_STREAM, Kind
from takeaways.schemas.tables import agents, jobs, messages
from takeaways.workers.consolidation.render import candidates_text, section_text
from takeaways.workers.consolidation.render import render as render_consolidation
from takeaways.workers.extraction import backlog
from takeaways.workers.extraction.render import block, excerpts
from takeaways.workers.extraction.render import render as render_extraction
from takeaways.workers.importing import Problem, events_of, read
from takeaways.workers.intake.entries import read_entry
from takeaways.workers.intake.transaction import take_in
from takeaways.workers.jobs.flush import flush
from takeaways.workers.jobs.run import run_job
from takeaways.workers.models.anthropic import AnthropicModel, Connection
from takeaways.workers.models.offline import OfflineModel
from takeaways.workers.models.requests import ConsolidationRequest, Excerpt, ExtractionRequest, Source
from takeaways.workers.models.seam import Answered, Call, MemoryModel
from takeaways.workers.models.tokens import estimate
from takeaways.workers.schedule.boot import current_boot
from takeaways.workers.schedule.decide import decide
from takeaways.workers.schedule.moment import moment
from takeaways.workers.schedule.state import AgentState
from takeaways.workers.testing.claude import ClaudeServer

CONVERSATION: Final = "conv-26.json"
MODEL: Final = "claude-haiku-5-5"
MOST_TRANSCRIPT: Final = 1.10
MOST_IN_ALL: Final = 2.0
RECORDED: Final = "facts that a language model took"
OFFLINE: Final = "the offline model"
PEERS: Final = (3.7, 13.7, 142.0)


@dataclass(slots=True)
class Sent:
    """Input tokens, as the stand-in server counts them: what each part of the requests takes."""

    calls: int = 0
    transcript: int = 0
    summaries_and_frames: int = 0
    memory: int = 0
    candidates: int = 0
    instructions: int = 0
    all: int = 0
    cached: int = 0
    written: int = 0

    @property
    def material(self) -> int:
        return self.all - self.instructions


class Measured(AnthropicModel):
    """The real model; what each of its requests is made of is noted on the way."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(MODEL, connection=connection)
        self.sent = {kind: Sent() for kind in Kind}

    def extract(self, request: ExtractionRequest, call: Call) -> Answered[Any]:
        answered = super().extract(request, call)
        transcript = sum(estimate(block(one)) for room in request.rooms for one in room.excerpts)
        sent = self._note(Kind.EXTRACTION, answered, estimate(render_extraction(request)))
        sent.transcript += transcript
        sent.summaries_and_frames += estimate(render_extraction(request)) - transcript
        return answered

    def consolidate(self, request: ConsolidationRequest, call: Call) -> Answered[Any]:
        answered = super().consolidate(request, call)
        sent = self._note(Kind.CONSOLIDATION, answered, estimate(render_consolidation(request)))
        sent.memory += sum(estimate(section_text(one)) for one in request.sections)
        sent.candidates += estimate(candidates_text(request.candidates))
        return answered

    def _note(self, kind: Kind, answered: Answered[Any], material: int) -> Sent:
        sent, usage = self.sent[kind], answered.usage
        sent.calls += usage.calls
        sent.all += usage.input_tokens
        sent.instructions += usage.input_tokens - material
        sent.cached += usage.cached_tokens
        sent.written += usage.written_tokens
        return sent


@dataclass(frozen=True, slots=True)
class Bill:
    """The run as figures. `raw` is the rendered transcript, `bare` only speakers and texts."""

    raw: int
    bare: int
    messages: int
    unread: int
    extraction: Sent
    consolidation: Sent
    candidates: int
    jobs: int
    cost_microdollars: int

    @property
    def transcript_ratio(self) -> float:
        return self.extraction.transcript / self.raw

    @property
    def ratio(self) -> float:
        """Everything that varies: instructions and schema are cached and told apart."""
        return (self.extraction.material + self.consolidation.material) / self.raw

    @property
    def ratio_as_charged(self) -> float:
        """Everything, a token at what it costs beside a fresh one: a tenth when cached, a quarter more when written."""
        sent = (self.extraction, self.consolidation)
        return sum(one.all - 0.9 * one.cached + 0.25 * one.written for one in sent) / self.raw

    @property
    def ratio_in_all(self) -> float:
        return (self.extraction.all + self.consolidation.all) / self.raw


def missed_targets(bill: Bill) -> list[str]:
    """One sentence for each target that was missed."""
    missed = []
    if bill.unread:
        missed.append(f"{bill.unread} messages were not read")
    if bill.transcript_ratio > MOST_TRANSCRIPT:
        missed.append(
            f"extraction sent {bill.transcript_ratio:.2f} x the transcript, at most {MOST_TRANSCRIPT:.2f}"
        )
    if bill.ratio_in_all > MOST_IN_ALL:
        missed.append(f"{bill.ratio_in_all:.2f} x was sent in all, at most {MOST_IN_ALL:.1f}")
    if bill.extraction.calls > 1 and not bill.extraction.cached:
        missed.append("the instructions of extraction were never read from the cache")
    return missed


class Recorded(ReplayModel):
    """The facts that come with a conversation. A server sees no ids, so turns are known by what they say."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__(conversation.observations)
        self._turns = {turn.text: turn.id for turn in conversation.turns}

    def extract(self, request: ExtractionRequest, call: Call) -> Answered[Any]:
        rooms = tuple(
            replace(room, excerpts=tuple(map(self._with_id, room.excerpts))) for room in request.rooms
        )
        return super().extract(ExtractionRequest(rooms), call)

    def _with_id(self, excerpt: Excerpt) -> Excerpt:
        said = excerpt.text(Source.SPOKEN).strip()
        return replace(excerpt, message_id=self._turns.get(said, excerpt.message_id))


def measure(file: Path, answers: MemoryModel, home: Path) -> Bill:
    """Run the conversation through the pipeline in `home`; `answers` stands behind the server."""
    database = Database.open(f"sqlite:///{home / 'takeaways.db'}")
    migrate(database)
    current_boot(database, pinned=None, fresh=False)
    with ClaudeServer(count=estimate, answers=answers) as server:
        connection = Connection(base_url=server.url, api_key="stand-in")
        model = Measured(connection)
        services = Services(database=database, model=model)
        try:
            for event in _events(file):
                _take_in(services, event)
                _work(services)
            flush(services, [AGENT])
            return _bill(services, model)
        finally:
            services.heartbeat.stop()
            connection.close()
            database.dispose()


def _events(file: Path) -> Iterator[Event]:
    """One event a session, in the order in which they ended."""
    problems: list[Problem] = []
    rooms = list(read(file, agent_id=AGENT, report=problems.append))
    rooms.sort(key=lambda room: max(run.ended_at for run in room.runs))
    for room in rooms:
        yield from events_of(room, AGENT, published_at=datetime.now(UTC))


def _take_in(services: Services, event: Event) -> None:
    entry = read_entry(RUNS_STREAM, f"1-{id(event)}", {FIELD.encode(): encode(event)})
    take_in(services.database, [entry], policy=services.policy)


def _work(services: Services) -> None:
    """Every job that is due, as hints would run them."""
    while True:
        with services.database.read() as connection:
            row = connection.execute(select(agents).where(agents.c.agent_id == AGENT)).mappings().one()
            at = moment(connection)
            due = decide(AgentState.of(dict(row), at), services.policy, at.now_ms).next
        if due is None:
            return
        run_job(due, AGENT, services)


def _bill(services: Services, model: Measured) -> Bill:
    with services.database.read() as connection:
        rows = connection.execute(select(messages).where(messages.c.agent_id == AGENT)).mappings().all()
        made, learned, cost = connection.execute(
            select(func.count(), func.sum(jobs.c.candidates_made), func.sum(jobs.c.cost_microdollars))
        ).one()
    said = [backlog.said(row) for row in rows]
    rooms = {one.room_id for one in said}
    shown = [one for room in sorted(rooms) for one in excerpts([s for s in said if s.room_id == room])]
    return Bill(
        raw=sum(estimate(block(one)) for one in shown),
        bare=sum(estimate(f"{one.author.name}: {one.text()}\n") for one in shown),
        messages=len(rows),
        unread=sum(row["read_by"] is None for row in rows),
        extraction=model.sent[Kind.EXTRACTION],
        consolidation=model.sent[Kind.CONSOLIDATION],
        candidates=int(learned or 0),
        jobs=int(made),
        cost_microdollars=int(cost or 0),
    )


def _table(title: str, bill: Bill) -> Table:
    extraction, consolidation = bill.extraction, bill.consolidation
    table = Table("stage", title=f"Input tokens for each token of the transcript: {title}")
    table.add_column("tokens", justify="right")
    table.add_column("x raw", justify="right")
    for name, tokens in (
        ("raw: every message rendered once", bill.raw),
        ("  of which speakers and texts", bill.bare),
        ("extraction: transcript", extraction.transcript),
        ("extraction: titles, fences, earlier summaries", extraction.summaries_and_frames),
        ("consolidation: memory", consolidation.memory),
        ("consolidation: candidates", consolidation.candidates),
        ("everything that varies", extraction.material + consolidation.material),
        (f"instructions and schema, extraction ({extraction.calls} calls)", extraction.instructions),
        (f"instructions and schema, consolidation ({consolidation.calls} calls)", consolidation.instructions),
        ("  of which read from the cache", extraction.cached + consolidation.cached),
        ("in all", extraction.all + consolidation.all),
        ("in all, as it is charged", round(bill.ratio_as_charged * bill.raw)),
    ):
        table.add_row(name, f"{tokens:,}", f"{tokens / bill.raw:.2f}")
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tokens", description=WHERE)
    parser.add_argument("--data", type=Path, help=f"the folder that holds {CONVERSATION}, or one around it")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "tokens.json")
    options = parser.parse_args(arguments)
    console = Console(markup=False, highlight=False)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))

    folder = locomo_folder(options.data)
    if folder is None or not (folder / CONVERSATION).is_file():
        console.print(f"There is no {CONVERSATION} to measure with. {WHERE} Then: make tokens DATA=folder")
        return 0
    [conversation] = [one for one in conversations(folder) if one.file.name == CONVERSATION]
    bills = {}
    for name, answers in ((RECORDED, Recorded(conversation)), (OFFLINE, OfflineModel())):
        with tempfile.TemporaryDirectory(prefix="takeaways-tokens-") as home:
            bill = bills[name] = measure(conversation.file, answers, Path(home))
        console.print(_table(name, bill))
        console.print(
            f"{bill.messages} messages, {bill.candidates} candidates, {bill.jobs} jobs, "
            f"{bill.cost_microdollars / 1e6:.4f} dollars at the list price of {MODEL}"
        )
    missed = missed_targets(bills[RECORDED])
    console.print(f"Other memories on this file, in all: {', '.join(f'{peer:g} x' for peer in PEERS)}")
    for sentence in missed:
        console.print(f"MISSED: {sentence}", style="red")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    figures = {
        name: {**asdict(bill), "ratio": bill.ratio, "ratio_in_all": bill.ratio_in_all}
        for name, bill in bills.items()
    }
    options.output.write_text(json.dumps({**figures, "missed": missed}, indent=2) + "\n", encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
