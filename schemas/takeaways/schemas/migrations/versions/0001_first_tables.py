"""The first tables."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.String(255).with_variant(sa.String(255, collation="C"), "postgresql")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:

    op.create_table(
        "agents",
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("generation", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("deleted_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("model_window", sa.BigInteger(), nullable=True),
        sa.Column("model_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("boot_id", sa.String(length=64), nullable=True),
        sa.Column("arrivals_total", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("messages_total", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("messages_read", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("runs_total", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("runs_served", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("compactions_total", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("compactions_served", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("candidates_total", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("candidates_settled", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("extractions_asked", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("extractions_asked_served", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("consolidations_asked", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "consolidations_asked_served", sa.BigInteger(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column("last_success_ms", sa.BigInteger(), nullable=True),
        sa.Column("idle_served_ms", sa.BigInteger(), nullable=True),
        sa.Column("extraction_pass", JSON, nullable=True),
        sa.Column("consolidation_pass", JSON, nullable=True),
        sa.Column("consolidation_waited", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=True),
        sa.Column("owner_kind", sa.String(length=16), nullable=True),
        sa.Column("epoch", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("lease_until_ms", sa.BigInteger(), nullable=True),
        sa.Column("lease_boot", sa.String(length=64), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("attempts_at", sa.String(length=255), nullable=True),
        sa.Column("wake_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("hints", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "left_for",
            sa.String(length=16),
            nullable=True,
            comment="the kind of the pool that the sweep of another one left the agent to",
        ),
        sa.Column("left_until_ms", sa.BigInteger(), nullable=True),
        sa.Column("due_since_ms", sa.BigInteger(), nullable=True),
        sa.Column(
            "due_kind",
            sa.String(length=16),
            nullable=True,
            comment="what a worker may claim now and none has, for metrics",
        ),
        sa.Column("due_reason", sa.String(length=64), nullable=True),
        sa.Column("not_before_ms", sa.BigInteger(), nullable=True),
        sa.Column("parked_because", sa.Text(), nullable=True),
        sa.Column(
            "spent_day",
            sa.BigInteger(),
            nullable=True,
            comment="the day that spent_tokens belongs to, counted since 1970 in UTC",
        ),
        sa.Column("spent_tokens", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("extraction_retry_ms", sa.BigInteger(), nullable=True),
        sa.Column("consolidation_retry_ms", sa.BigInteger(), nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", name="pk_agents"),
    )
    op.create_index(
        "ix_agents_wake_at_ms",
        "agents",
        ["wake_at_ms"],
        unique=False,
        postgresql_where=sa.text("wake_at_ms IS NOT NULL"),
        sqlite_where=sa.text("wake_at_ms IS NOT NULL"),
    )
    op.create_index(
        "ix_agents_due",
        "agents",
        ["due_kind", "due_reason", "due_since_ms"],
        unique=False,
        postgresql_where=sa.text("due_since_ms IS NOT NULL"),
        sqlite_where=sa.text("due_since_ms IS NOT NULL"),
    )
    op.create_index(
        "ix_agents_leased",
        "agents",
        ["owner_kind", "lease_until_ms"],
        unique=False,
        postgresql_where=sa.text("owner IS NOT NULL"),
        sqlite_where=sa.text("owner IS NOT NULL"),
    )
    op.create_index(
        "ix_agents_held",
        "agents",
        ["not_before_ms"],
        unique=False,
        postgresql_where=sa.text("not_before_ms IS NOT NULL"),
        sqlite_where=sa.text("not_before_ms IS NOT NULL"),
    )
    op.create_table(
        "candidates",
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("candidate_id", ID, nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False, comment="per agent, in the order of extraction"),
        sa.Column("room_id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("said_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("evidence", JSON, nullable=False),
        sa.Column(
            "state",
            sa.String(length=16),
            server_default="waiting",
            nullable=False,
            comment="waiting, quarantined, withdrawn, trimmed, by_hand or its Fate",
        ),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("superseded_by", JSON, nullable=True, comment="ids of the candidates that say otherwise"),
        sa.Column("quarantine_id", ID, nullable=True),
        sa.Column("settled_by", ID, nullable=True),
        sa.Column("settled_revision", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("agent_id", "candidate_id", name="pk_candidates"),
    )
    op.create_index("ix_candidates_room", "candidates", ["agent_id", "room_id"], unique=False)
    op.create_index(
        "ix_candidates_waiting",
        "candidates",
        ["agent_id", "place"],
        unique=False,
        postgresql_where=sa.text("state = 'waiting'"),
        sqlite_where=sa.text("state = 'waiting'"),
    )
    op.create_table(
        "dead_letters",
        sa.Column("dead_letter_id", sa.String(length=64), nullable=False),
        sa.Column("stream", sa.String(length=255), nullable=False),
        sa.Column("entry_id", sa.String(length=64), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("raw", sa.LargeBinary(), nullable=False),
        sa.Column("source", ID, nullable=True),
        sa.Column("event_id", ID, nullable=True),
        sa.Column("agent_id", ID, nullable=True),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column(
            "state",
            sa.String(length=16),
            server_default="open",
            nullable=False,
            comment="open, retried or discarded",
        ),
        sa.PrimaryKeyConstraint("dead_letter_id", name="pk_dead_letters"),
        sa.UniqueConstraint("stream", "entry_id", name="uq_dead_letters_stream_entry_id"),
    )
    op.create_index("ix_dead_letters_agent", "dead_letters", ["agent_id"], unique=False)
    op.create_index("ix_dead_letters_at", "dead_letters", ["at_ms"], unique=False)
    op.create_index(
        "ix_dead_letters_open",
        "dead_letters",
        ["reason"],
        unique=False,
        postgresql_where=sa.text("state = 'open'"),
        sqlite_where=sa.text("state = 'open'"),
    )
    op.create_table(
        "erasures",
        sa.Column("erasure_id", sa.String(length=64), nullable=False),
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("scope", sa.String(length=16), nullable=False),
        sa.Column("subject_id", ID, nullable=False),
        sa.Column("asked_ms", sa.BigInteger(), nullable=False),
        sa.Column("done_ms", sa.BigInteger(), nullable=True),
        sa.Column("account", JSON, nullable=False),
        sa.PrimaryKeyConstraint("erasure_id", name="pk_erasures"),
    )
    op.create_index("ix_erasures_open", "erasures", ["done_ms"], unique=False)
    op.create_table(
        "inbox",
        sa.Column("source", ID, nullable=False),
        sa.Column("event_id", ID, nullable=False),
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("type", sa.String(length=255), nullable=False),
        sa.Column("body_hash", sa.String(length=64), nullable=False),
        sa.Column("outcome", sa.String(length=32), nullable=False),
        sa.Column("taken_in_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source", "event_id", name="pk_inbox"),
    )
    op.create_index("ix_inbox_taken_in", "inbox", ["taken_in_ms"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.String(length=32), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("prompt_version", sa.String(length=64), nullable=True),
        sa.Column("messages_read", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("candidates_made", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("candidates_settled", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("calls", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("written_tokens", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "cost_microdollars", sa.BigInteger(), nullable=True, comment="null: a model without a price"
        ),
        sa.Column(
            "window",
            sa.BigInteger(),
            nullable=True,
            comment="the context window that its steps were measured by",
        ),
        sa.Column("revision", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", name="pk_jobs"),
        sa.UniqueConstraint("agent_id", "epoch", name="uq_jobs_agent_id_epoch"),
    )
    op.create_index("ix_jobs_started", "jobs", ["started_ms"], unique=False)
    op.create_table(
        "kept_answers",
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("prompt_hash", sa.String(length=64), nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("kept_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "kind", name="pk_kept_answers"),
        comment="What a model answered and nobody has committed yet.",
    )
    op.create_table(
        "messages",
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("room_id", ID, nullable=False),
        sa.Column("message_id", ID, nullable=False),
        sa.Column(
            "arrival",
            sa.BigInteger(),
            nullable=False,
            comment="per agent, allotted under the agent row's lock",
        ),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "state",
            sa.String(length=16),
            nullable=False,
            comment="stored, awaited (an edit came first), deleted",
        ),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("author_id", ID, nullable=False),
        sa.Column("author_name", sa.Text(), nullable=True),
        sa.Column("author_kind", sa.String(length=16), nullable=False),
        sa.Column("user_id", ID, nullable=True),
        sa.Column("run_id", ID, nullable=True),
        sa.Column("run_started_ms", sa.BigInteger(), nullable=True),
        sa.Column("position", sa.BigInteger(), nullable=True),
        sa.Column("ordinal", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("said_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("offset_minutes", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "undated",
            sa.Boolean(),
            server_default=sa.false(),
            nullable=False,
            comment="said_at_ms stands in for its run's end",
        ),
        sa.Column("parts", JSON, nullable=False),
        sa.Column("expired_ms", sa.BigInteger(), nullable=True, comment="when retention deleted the text"),
        sa.Column("read_by", ID, nullable=True),
        sa.Column("read_ms", sa.BigInteger(), nullable=True),
        sa.Column("quarantine_id", ID, nullable=True),
        sa.PrimaryKeyConstraint("agent_id", "room_id", "message_id", name="pk_messages"),
    )
    op.create_index("ix_messages_author", "messages", ["agent_id", "author_id"], unique=False)
    op.create_index(
        "ix_messages_text",
        "messages",
        ["read_ms"],
        unique=False,
        postgresql_where=sa.text("read_by IS NOT NULL AND expired_ms IS NULL"),
        sqlite_where=sa.text("read_by IS NOT NULL AND expired_ms IS NULL"),
    )
    op.create_index(
        "ix_messages_undated",
        "messages",
        ["agent_id", "run_id"],
        unique=False,
        postgresql_where=sa.text("undated"),
        sqlite_where=sa.text("undated"),
    )
    op.create_index(
        "ix_messages_unread",
        "messages",
        ["agent_id", "arrival"],
        unique=False,
        postgresql_where=sa.text("read_by IS NULL AND quarantine_id IS NULL AND state = 'stored'"),
        sqlite_where=sa.text("read_by IS NULL AND quarantine_id IS NULL AND state = 'stored'"),
    )
    op.create_table(
        "note_texts",
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("text_hash", sa.String(length=64), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "text_hash", name="pk_note_texts"),
    )
    op.create_table(
        "notes",
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("room_id", ID, nullable=False),
        sa.Column("conversation_id", ID, nullable=False),
        sa.Column("compaction", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("text_hash", sa.String(length=64), nullable=True, comment="null: pinned to have no note"),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("pinned_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "room_id", "conversation_id", "compaction", name="pk_notes"),
    )
    op.create_table(
        "persons",
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("person_id", ID, nullable=False),
        sa.Column("deleted_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "person_id", name="pk_persons"),
        comment="Tombstones: what a person said up to then does not enter again.",
    )
    op.create_table(
        "quarantines",
        sa.Column("quarantine_id", ID, nullable=False),
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("items", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("made_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("retry_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("lifted_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("quarantine_id", name="pk_quarantines"),
    )
    op.create_index("ix_quarantines_agent", "quarantines", ["agent_id"], unique=False)
    op.create_index(
        "ix_quarantines_open",
        "quarantines",
        ["kind", "made_at_ms"],
        unique=False,
        postgresql_where=sa.text("lifted_at_ms IS NULL"),
        sqlite_where=sa.text("lifted_at_ms IS NULL"),
    )
    op.create_table(
        "revisions",
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(
            "sections",
            JSON,
            nullable=True,
            comment="digests, in order; null once thinned out, when the accounts make it again",
        ),
        sa.Column("account", JSON, nullable=False, comment="edits, and what became of each candidate"),
        sa.Column("job_id", ID, nullable=True),
        sa.Column("made_by", sa.String(length=32), nullable=False),
        sa.Column("made_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "revision", name="pk_revisions"),
    )
    op.create_table(
        "rooms",
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("room_id", ID, nullable=False),
        sa.Column("generation", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("deleted_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("kind", sa.String(length=16), server_default="room", nullable=False),
        sa.Column("last_activity_ms", sa.BigInteger(), nullable=True),
        sa.Column("conversation_id", ID, nullable=True),
        sa.Column("compaction", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "compaction_counted",
            sa.BigInteger(),
            nullable=True,
            comment="the highest number that room.compacted told of this conversation",
        ),
        sa.Column("boundary_message_id", ID, nullable=True),
        sa.Column("summary", sa.Text(), nullable=True),
        sa.Column("summary_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("summary_job_id", ID, nullable=True),
        sa.PrimaryKeyConstraint("agent_id", "room_id", name="pk_rooms"),
    )
    op.create_index("ix_rooms_activity", "rooms", ["agent_id", "last_activity_ms"], unique=False)
    op.create_table(
        "runs",
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("generation", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("room_id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("counted", sa.Boolean(), nullable=False),
        sa.Column("started_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "generation", "run_id", name="pk_runs"),
    )
    op.create_table(
        "section_texts",
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("content", JSON, nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "digest", name="pk_section_texts"),
        comment="Content-addressed sections: a revision that leaves one alone stores nothing.",
    )
    op.create_table(
        "system",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("boot_id", sa.String(length=64), nullable=False),
        sa.Column("pinned_boot_id", sa.String(length=255), nullable=True),
        sa.Column("clock_offset_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("policy_hash", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_system"),
        comment="One row, id 1: the current boot, and the offset that tests add to the clock.",
    )
    op.create_table(
        "workspaces",
        sa.Column("workspace_id", ID, nullable=False),
        sa.Column("machine", ID, nullable=False),
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("registered_ms", sa.BigInteger(), nullable=False),
        sa.Column(
            "shown",
            sa.String(length=255),
            nullable=True,
            comment="what of the agent the folder was last made from",
        ),
        sa.Column(
            "files_hash",
            sa.String(length=64),
            nullable=True,
            comment="of the files as they were written; another is an edit by hand",
        ),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("checked_ms", sa.BigInteger(), nullable=True),
        sa.Column("edited_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("workspace_id", name="pk_workspaces"),
    )
    op.create_index("ix_workspaces_machine", "workspaces", ["machine"])
    op.create_index("ix_workspaces_agent", "workspaces", ["agent_id"])
    op.create_table(
        "standing_notes",
        sa.Column(
            "target",
            sa.String(length=16),
            nullable=False,
            comment="memory: of an agent; user: of a person",
        ),
        sa.Column("owner_id", ID, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("entries", JSON, nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("target", "owner_id", name="pk_standing_notes"),
    )
    op.create_table(
        "standing_note_revisions",
        sa.Column("target", sa.String(length=16), nullable=False),
        sa.Column("owner_id", ID, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("entries", JSON, nullable=True, comment="null: redacted"),
        sa.Column(
            "made_by",
            sa.String(length=16),
            nullable=False,
            comment="tool, undo, import or person",
        ),
        sa.Column("agent_id", ID, nullable=True),
        sa.Column("call_id", ID, nullable=True),
        sa.Column("made_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("redacted_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("target", "owner_id", "version", name="pk_standing_note_revisions"),
    )
    op.create_table(
        "standing_note_calls",
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("call_id", ID, nullable=False),
        sa.Column("target", sa.String(length=16), nullable=False),
        sa.Column("owner_id", ID, nullable=False),
        sa.Column("request_hash", sa.String(length=64), nullable=False),
        sa.Column("answer", JSON, nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "call_id", name="pk_standing_note_calls"),
    )
    op.create_index("ix_standing_note_calls_owner", "standing_note_calls", ["target", "owner_id"])
    op.create_table(
        "standing_note_turns",
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("turn_id", ID, nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "turn_id", name="pk_standing_note_turns"),
    )
    op.create_table(
        "standing_note_pins",
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("room_id", ID, nullable=False),
        sa.Column("conversation_id", ID, nullable=False),
        sa.Column("compaction", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("user_id", ID, nullable=False, comment="empty: no person was named"),
        sa.Column("text", sa.Text(), nullable=False, comment="empty: pinned to show nothing"),
        sa.Column("pinned_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "agent_id", "room_id", "conversation_id", "compaction", "user_id", name="pk_standing_note_pins"
        ),
    )
    op.create_index("ix_standing_note_pins_user", "standing_note_pins", ["user_id"])


def downgrade() -> None:

    op.drop_index("ix_standing_note_pins_user", table_name="standing_note_pins")
    op.drop_table("standing_note_pins")
    op.drop_table("standing_note_turns")
    op.drop_index("ix_standing_note_calls_owner", table_name="standing_note_calls")
    op.drop_table("standing_note_calls")
    op.drop_table("standing_note_revisions")
    op.drop_table("standing_notes")
    op.drop_index("ix_workspaces_agent", table_name="workspaces")
    op.drop_index("ix_workspaces_machine", table_name="workspaces")
    op.drop_table("workspaces")
    op.drop_table("system")
    op.drop_table("section_texts")
    op.drop_table("runs")
    op.drop_index("ix_rooms_activity", table_name="rooms")
    op.drop_table("rooms")
    op.drop_table("revisions")
    op.drop_index(
        "ix_quarantines_open",
        table_name="quarantines",
        postgresql_where=sa.text("lifted_at_ms IS NULL"),
        sqlite_where=sa.text("lifted_at_ms IS NULL"),
    )
    op.drop_index("ix_quarantines_agent", table_name="quarantines")
    op.drop_table("quarantines")
    op.drop_table("persons")
    op.drop_table("notes")
    op.drop_table("note_texts")
    op.drop_index(
        "ix_messages_unread",
        table_name="messages",
        postgresql_where=sa.text("read_by IS NULL AND quarantine_id IS NULL AND state = 'stored'"),
        sqlite_where=sa.text("read_by IS NULL AND quarantine_id IS NULL AND state = 'stored'"),
    )
    op.drop_index(
        "ix_messages_undated",
        table_name="messages",
        postgresql_where=sa.text("undated"),
        sqlite_where=sa.text("undated"),
    )
    op.drop_index(
        "ix_messages_text",
        table_name="messages",
        postgresql_where=sa.text("read_by IS NOT NULL AND expired_ms IS NULL"),
        sqlite_where=sa.text("read_by IS NOT NULL AND expired_ms IS NULL"),
    )
    op.drop_index("ix_messages_author", table_name="messages")
    op.drop_table("messages")
    op.drop_table("kept_answers")
    op.drop_index("ix_jobs_started", table_name="jobs")
    op.drop_table("jobs")
    op.drop_index("ix_inbox_taken_in", table_name="inbox")
    op.drop_table("inbox")
    op.drop_index("ix_erasures_open", table_name="erasures")
    op.drop_table("erasures")
    op.drop_index(
        "ix_dead_letters_open",
        table_name="dead_letters",
        postgresql_where=sa.text("state = 'open'"),
        sqlite_where=sa.text("state = 'open'"),
    )
    op.drop_index("ix_dead_letters_at", table_name="dead_letters")
    op.drop_index("ix_dead_letters_agent", table_name="dead_letters")
    op.drop_table("dead_letters")
    op.drop_index(
        "ix_candidates_waiting",
        table_name="candidates",
        postgresql_where=sa.text("state = 'waiting'"),
        sqlite_where=sa.text("state = 'waiting'"),
    )
    op.drop_index("ix_candidates_room", table_name="candidates")
    op.drop_table("candidates")
    op.drop_index(
        "ix_agents_held",
        table_name="agents",
        postgresql_where=sa.text("not_before_ms IS NOT NULL"),
        sqlite_where=sa.text("not_before_ms IS NOT NULL"),
    )
    op.drop_index(
        "ix_agents_leased",
        table_name="agents",
        postgresql_where=sa.text("owner IS NOT NULL"),
        sqlite_where=sa.text("owner IS NOT NULL"),
    )
    op.drop_index(
        "ix_agents_due",
        table_name="agents",
        postgresql_where=sa.text("due_since_ms IS NOT NULL"),
        sqlite_where=sa.text("due_since_ms IS NOT NULL"),
    )
    op.drop_index(
        "ix_agents_wake_at_ms",
        table_name="agents",
        postgresql_where=sa.text("wake_at_ms IS NOT NULL"),
        sqlite_where=sa.text("wake_at_ms IS NOT NULL"),
    )
    op.drop_table("agents")
