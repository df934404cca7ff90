"""The tables, on SQLite and PostgreSQL alike. `docs/redis-and-tables.md` tells their lifetimes.

Instants are BIGINT milliseconds since 1970 UTC. Ids compare exactly: collation C on PostgreSQL,
BINARY on SQLite. Counters only grow; what a job has served is a second column beside each.
"""

from __future__ import annotations

from sqlalchemy import JSON as _JSON
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

__all__ = [
    "agents",
    "candidates",
    "dead_letters",
    "erasures",
    "inbox",
    "jobs",
    "kept_answers",
    "messages",
    "metadata",
    "note_texts",
    "notes",
    "persons",
    "quarantines",
    "revisions",
    "rooms",
    "runs",
    "section_texts",
    "standing_note_calls",
    "standing_note_pins",
    "standing_note_revisions",
    "standing_note_turns",
    "standing_notes",
    "system",
    "workspaces",
]

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
    }
)

IdText = String(255).with_variant(String(255, collation="C"), "postgresql")
JSON = _JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def _id(name: str, *, primary_key: bool = False, nullable: bool = False) -> Column[str]:
    return Column(name, IdText, primary_key=primary_key, nullable=nullable)


def _count(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default=text("0"))


def _ms(name: str, *, nullable: bool = True) -> Column[int]:
    return Column(name, BigInteger, nullable=nullable)


system = Table(
    "system",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("boot_id", String(64), nullable=False),
    Column("pinned_boot_id", String(255)),
    Column("clock_offset_ms", BigInteger, nullable=False, server_default=text("0")),
    Column("policy_hash", String(64)),
    comment="One row, id 1: the current boot, and the offset that tests add to the clock.",
)

agents = Table(
    "agents",
    metadata,
    _id("agent_id", primary_key=True),
    Column("generation", Integer, nullable=False, server_default=text("1")),
    _ms("deleted_at_ms"),
    Column("name", Text),
    Column("model", Text),
    Column("model_window", BigInteger),
    _ms("model_at_ms"),
    Column("boot_id", String(64)),
    # what has come in, and what has been served of it
    _count("arrivals_total"),
    _count("messages_total"),
    _count("messages_read"),
    _count("runs_total"),
    _count("runs_served"),
    _count("compactions_total"),
    _count("compactions_served"),
    _count("candidates_total"),
    _count("candidates_settled"),
    _count("extractions_asked"),
    _count("extractions_asked_served"),
    _count("consolidations_asked"),
    _count("consolidations_asked_served"),
    _ms("last_success_ms"),
    _ms("idle_served_ms"),
    # the pass in progress of each kind: its horizon, and the marks it will set when it ends
    Column("extraction_pass", JSON),
    Column("consolidation_pass", JSON),
    Column("consolidation_waited", Boolean, nullable=False, server_default=false()),
    # the lease
    Column("owner", String(255)),
    Column("owner_kind", String(16)),
    Column("epoch", BigInteger, nullable=False, server_default=text("0")),
    Column("lease_until_ms", BigInteger),
    Column("lease_boot", String(64)),
    # attempts at what is being tried now; given back at every benign ending
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("attempts_at", String(255)),
    # timers
    _ms("wake_at_ms"),
    Column("hints", Integer, nullable=False, server_default=text("0")),
    Column(
        "left_for", String(16), comment="the kind of the pool that the sweep of another one left the agent to"
    ),
    _ms("left_until_ms"),
    _ms("due_since_ms"),
    Column("due_kind", String(16), comment="what a worker may claim now and none has, for metrics"),
    Column("due_reason", String(64)),
    _ms("not_before_ms"),
    Column("parked_because", Text),
    Column(
        "spent_day", BigInteger, comment="the day that spent_tokens belongs to, counted since 1970 in UTC"
    ),
    _count("spent_tokens"),
    _ms("extraction_retry_ms"),
    _ms("consolidation_retry_ms"),
    Column("revision", BigInteger, nullable=False, server_default=text("0")),
    Index(
        "ix_agents_wake_at_ms",
        "wake_at_ms",
        postgresql_where=text("wake_at_ms IS NOT NULL"),
        sqlite_where=text("wake_at_ms IS NOT NULL"),
    ),
    # These hold only the agents that something is the matter with, so that metrics never scan the table.
    Index(
        "ix_agents_due",
        "due_kind",
        "due_reason",
        "due_since_ms",
        postgresql_where=text("due_since_ms IS NOT NULL"),
        sqlite_where=text("due_since_ms IS NOT NULL"),
    ),
    Index(
        "ix_agents_leased",
        "owner_kind",
        "lease_until_ms",
        postgresql_where=text("owner IS NOT NULL"),
        sqlite_where=text("owner IS NOT NULL"),
    ),
    Index(
        "ix_agents_held",
        "not_before_ms",
        postgresql_where=text("not_before_ms IS NOT NULL"),
        sqlite_where=text("not_before_ms IS NOT NULL"),
    ),
)

rooms = Table(
    "rooms",
    metadata,
    _id("agent_id", primary_key=True),
    _id("room_id", primary_key=True),
    Column("generation", Integer, nullable=False, server_default=text("1")),
    _ms("deleted_at_ms"),
    Column("title", Text),
    Column("kind", String(16), nullable=False, server_default="room"),
    _ms("last_activity_ms"),
    _id("conversation_id", nullable=True),
    Column("compaction", BigInteger, nullable=False, server_default=text("0")),
    Column(
        "compaction_counted",
        BigInteger,
        comment="the highest number that room.compacted told of this conversation",
    ),
    _id("boundary_message_id", nullable=True),
    Column("summary", Text),
    _ms("summary_at_ms"),
    _id("summary_job_id", nullable=True),
    Index("ix_rooms_activity", "agent_id", "last_activity_ms"),
)

runs = Table(
    "runs",
    metadata,
    _id("agent_id", primary_key=True),
    Column("generation", Integer, primary_key=True, autoincrement=False),
    _id("run_id", primary_key=True),
    _id("room_id"),
    _id("user_id", nullable=True),
    Column("status", String(16), nullable=False),
    Column("counted", Boolean, nullable=False),
    _ms("started_at_ms"),
    _ms("ended_at_ms", nullable=False),
)

messages = Table(
    "messages",
    metadata,
    _id("agent_id", primary_key=True),
    _id("room_id", primary_key=True),
    _id("message_id", primary_key=True),
    Column("arrival", BigInteger, nullable=False, comment="per agent, allotted under the agent row's lock"),
    Column("revision", BigInteger, nullable=False, server_default=text("0")),
    Column("state", String(16), nullable=False, comment="stored, awaited (an edit came first), deleted"),
    Column("role", String(16), nullable=False),
    _id("author_id"),
    Column("author_name", Text),
    Column("author_kind", String(16), nullable=False),
    _id("user_id", nullable=True),
    _id("run_id", nullable=True),
    _ms("run_started_ms"),
    Column("position", BigInteger),
    Column("ordinal", BigInteger, nullable=False, server_default=text("0")),
    _ms("said_at_ms", nullable=False),
    Column("offset_minutes", Integer, nullable=False, server_default=text("0")),
    Column(
        "undated",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="said_at_ms stands in for its run's end",
    ),
    Column("parts", JSON, nullable=False),
    Column("expired_ms", BigInteger, comment="when retention deleted the text"),
    _id("read_by", nullable=True),
    _ms("read_ms"),
    _id("quarantine_id", nullable=True),
    # What retention looks for: texts that were read, the oldest first.
    Index(
        "ix_messages_text",
        "read_ms",
        postgresql_where=text("read_by IS NOT NULL AND expired_ms IS NULL"),
        sqlite_where=text("read_by IS NOT NULL AND expired_ms IS NULL"),
    ),
    Index(
        "ix_messages_unread",
        "agent_id",
        "arrival",
        postgresql_where=text("read_by IS NULL AND quarantine_id IS NULL AND state = 'stored'"),
        sqlite_where=text("read_by IS NULL AND quarantine_id IS NULL AND state = 'stored'"),
    ),
    Index("ix_messages_author", "agent_id", "author_id"),
    Index(
        "ix_messages_undated",
        "agent_id",
        "run_id",
        postgresql_where=text("undated"),
        sqlite_where=text("undated"),
    ),
)

candidates = Table(
    "candidates",
    metadata,
    _id("agent_id", primary_key=True),
    _id("candidate_id", primary_key=True),
    Column("place", BigInteger, nullable=False, comment="per agent, in the order of extraction"),
    _id("room_id"),
    _id("job_id"),
    Column("kind", String(16), nullable=False),
    Column("topic", Text, nullable=False),
    Column("text", Text, nullable=False),
    _ms("said_at_ms", nullable=False),
    Column("evidence", JSON, nullable=False),
    Column(
        "state",
        String(16),
        nullable=False,
        server_default="waiting",
        comment="waiting, quarantined, withdrawn, trimmed, by_hand or its Fate",
    ),
    Column("reason", Text),
    Column("superseded_by", JSON, comment="ids of the candidates that say otherwise"),
    _id("quarantine_id", nullable=True),
    _id("settled_by", nullable=True),
    Column("settled_revision", BigInteger),
    Index(
        "ix_candidates_waiting",
        "agent_id",
        "place",
        postgresql_where=text("state = 'waiting'"),
        sqlite_where=text("state = 'waiting'"),
    ),
    Index("ix_candidates_room", "agent_id", "room_id"),
)

section_texts = Table(
    "section_texts",
    metadata,
    _id("agent_id", primary_key=True),
    Column("digest", String(64), primary_key=True),
    Column("content", JSON, nullable=False),
    comment="Content-addressed sections: a revision that leaves one alone stores nothing.",
)

revisions = Table(
    "revisions",
    metadata,
    _id("agent_id", primary_key=True),
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column(
        "sections", JSON, comment="digests, in order; null once thinned out, when the accounts make it again"
    ),
    Column("account", JSON, nullable=False, comment="edits, and what became of each candidate"),
    _id("job_id", nullable=True),
    Column("made_by", String(32), nullable=False),
    _ms("made_at_ms", nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    _id("job_id", primary_key=True),
    _id("agent_id"),
    Column("generation", Integer, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("reason", String(64), nullable=False),
    Column("owner", String(255), nullable=False),
    _ms("started_ms", nullable=False),
    _ms("ended_ms"),
    Column("outcome", String(32)),
    Column("detail", Text),
    Column("model", Text),
    Column("prompt_version", String(64)),
    Column("messages_read", BigInteger, nullable=False, server_default=text("0")),
    Column("candidates_made", BigInteger, nullable=False, server_default=text("0")),
    Column("candidates_settled", BigInteger, nullable=False, server_default=text("0")),
    Column("calls", Integer, nullable=False, server_default=text("0")),
    Column("input_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("output_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("cached_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("written_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("cost_microdollars", BigInteger, comment="null: a model without a price"),
    Column("window", BigInteger, comment="the context window that its steps were measured by"),
    Column("revision", BigInteger),
    UniqueConstraint("agent_id", "epoch"),
    Index("ix_jobs_started", "started_ms"),
)

kept_answers = Table(
    "kept_answers",
    metadata,
    _id("agent_id", primary_key=True),
    Column("kind", String(16), primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("prompt_hash", String(64), nullable=False),
    _id("job_id"),
    Column("model", Text, nullable=False),
    Column("answer", Text, nullable=False),
    _ms("kept_at_ms", nullable=False),
    comment="What a model answered and nobody has committed yet.",
)

quarantines = Table(
    "quarantines",
    metadata,
    _id("quarantine_id", primary_key=True),
    _id("agent_id"),
    Column("kind", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("items", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    _ms("made_at_ms", nullable=False),
    _ms("retry_at_ms"),
    _ms("lifted_at_ms"),
    Index("ix_quarantines_agent", "agent_id"),
    Index(
        "ix_quarantines_open",
        "kind",
        "made_at_ms",
        postgresql_where=text("lifted_at_ms IS NULL"),
        sqlite_where=text("lifted_at_ms IS NULL"),
    ),
)

inbox = Table(
    "inbox",
    metadata,
    _id("source", primary_key=True),
    _id("event_id", primary_key=True),
    _id("agent_id"),
    Column("type", String(255), nullable=False),
    Column("body_hash", String(64), nullable=False),
    Column("outcome", String(32), nullable=False),
    _ms("taken_in_ms", nullable=False),
    Index("ix_inbox_taken_in", "taken_in_ms"),
)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("dead_letter_id", String(64), primary_key=True),
    Column("stream", String(255), nullable=False),
    Column("entry_id", String(64), nullable=False),
    Column("reason", String(32), nullable=False),
    Column("detail", Text, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    _id("source", nullable=True),
    _id("event_id", nullable=True),
    _id("agent_id", nullable=True),
    _ms("at_ms", nullable=False),
    Column("state", String(16), nullable=False, server_default="open", comment="open, retried or discarded"),
    UniqueConstraint("stream", "entry_id"),
    Index("ix_dead_letters_at", "at_ms"),
    Index("ix_dead_letters_agent", "agent_id"),
    Index(
        "ix_dead_letters_open",
        "reason",
        postgresql_where=text("state = 'open'"),
        sqlite_where=text("state = 'open'"),
    ),
)

notes = Table(
    "notes",
    metadata,
    _id("agent_id", primary_key=True),
    _id("room_id", primary_key=True),
    _id("conversation_id", primary_key=True),
    Column("compaction", BigInteger, primary_key=True, autoincrement=False),
    Column("text_hash", String(64), comment="null: pinned to have no note"),
    Column("revision", BigInteger, nullable=False),
    _ms("pinned_at_ms", nullable=False),
)

note_texts = Table(
    "note_texts",
    metadata,
    _id("agent_id", primary_key=True),
    Column("text_hash", String(64), primary_key=True),
    Column("text", Text, nullable=False),
)

persons = Table(
    "persons",
    metadata,
    _id("agent_id", primary_key=True),
    _id("person_id", primary_key=True),
    _ms("deleted_at_ms", nullable=False),
    comment="Tombstones: what a person said up to then does not enter again.",
)

erasures = Table(
    "erasures",
    metadata,
    Column("erasure_id", String(64), primary_key=True),
    _id("agent_id"),
    Column("scope", String(16), nullable=False),
    _id("subject_id"),
    _ms("asked_ms", nullable=False),
    _ms("done_ms"),
    Column("account", JSON, nullable=False),
    Index("ix_erasures_open", "done_ms"),
)

workspaces = Table(
    "workspaces",
    metadata,
    _id("workspace_id", primary_key=True),
    _id("machine"),
    _id("agent_id"),
    Column("path", Text, nullable=False),
    _ms("registered_ms", nullable=False),
    Column("shown", String(255), comment="what of the agent the folder was last made from"),
    Column("files_hash", String(64), comment="of the files as they were written; another is an edit by hand"),
    Column("outcome", String(16)),
    Column("detail", Text),
    _ms("checked_ms"),
    _ms("edited_ms"),
    Index("ix_workspaces_machine", "machine"),
    Index("ix_workspaces_agent", "agent_id"),
)

standing_notes = Table(
    "standing_notes",
    metadata,
    Column("target", String(16), primary_key=True, comment="memory: of an agent; user: of a person"),
    _id("owner_id", primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("entries", JSON, nullable=False),
    _ms("updated_ms", nullable=False),
)

standing_note_revisions = Table(
    "standing_note_revisions",
    metadata,
    Column("target", String(16), primary_key=True),
    _id("owner_id", primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("entries", JSON, comment="null: redacted"),
    Column("made_by", String(16), nullable=False, comment="tool, undo, import or person"),
    _id("agent_id", nullable=True),
    _id("call_id", nullable=True),
    _ms("made_at_ms", nullable=False),
    _ms("redacted_ms"),
)

standing_note_calls = Table(
    "standing_note_calls",
    metadata,
    _id("agent_id", primary_key=True),
    _id("call_id", primary_key=True),
    Column("target", String(16), nullable=False),
    _id("owner_id"),
    Column("request_hash", String(64), nullable=False),
    Column("answer", JSON, nullable=False),
    _ms("at_ms", nullable=False),
    Index("ix_standing_note_calls_owner", "target", "owner_id"),
)

standing_note_turns = Table(
    "standing_note_turns",
    metadata,
    _id("agent_id", primary_key=True),
    _id("turn_id", primary_key=True),
    Column("failures", Integer, nullable=False),
    _ms("at_ms", nullable=False),
)

standing_note_pins = Table(
    "standing_note_pins",
    metadata,
    _id("agent_id", primary_key=True),
    _id("room_id", primary_key=True),
    _id("conversation_id", primary_key=True),
    Column("compaction", BigInteger, primary_key=True, autoincrement=False),
    Column("user_id", IdText, primary_key=True, comment="empty: no person was named"),
    Column("text", Text, nullable=False, comment="empty: pinned to show nothing"),
    _ms("pinned_at_ms", nullable=False),
    Index("ix_standing_note_pins_user", "user_id"),
)
