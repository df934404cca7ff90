"""Reading one stream as a consumer of a group, so that no entry is lost when a reader dies.

What was delivered stays pending until it is acknowledged. A reader looks at its own pending entries first, at
start and after any trouble: after a failed commit nothing else gives them back.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError
from redis.retry import Retry

from takeaways.schemas.queues import GROUP
from takeaways.workers.intake.entries import Entry, read_entry
from takeaways.workers.intake.scripts import script

log = structlog.get_logger(__name__)

BATCH_ENTRIES: Final = 500
BATCH_BYTES: Final = 8 * 1024 * 1024
BLOCK_SECONDS: Final = 2.0
# A client that repeats a read by itself loses the first answer's entries until they are reclaimed, and a read
# that blocks longer than the socket may be silent is such a repeat.
SOCKET_TIMEOUT_SECONDS: Final = 5.0


def consumer_name() -> str:
    """A name that no other process ever had: host, process and a nonce, for process ids come again."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def is_of_host(consumer: str, host: str) -> bool:
    """Whether a consumer of that name runs, or ran, on this host."""
    return consumer.partition(":")[0] == host


def is_gone(consumer: str, *, than: str) -> bool:
    """Whether the process behind a consumer's name ran on the host of `than`, and no longer does.

    False for other hosts, of which nothing can be known here. Process ids come again: another consumer with the
    id of `than` is one that went before it. Where containers share a host's name the answer may be wrong; taking
    over from a living consumer costs a second reading, and no entry.
    """
    host, _, rest = consumer.partition(":")
    own_host, _, own_rest = than.partition(":")
    pid, own_pid = rest.partition(":")[0], own_rest.partition(":")[0]
    if host != own_host or consumer == than or not pid.isdecimal():
        return False
    if pid == own_pid:
        return True
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        pass
    return False


def connect_reader(url: str) -> Redis:
    """A client that reports trouble at once instead of repeating a command."""
    client: Redis = Redis.from_url(
        url,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=SOCKET_TIMEOUT_SECONDS,
        socket_connect_timeout=3,
        socket_keepalive=True,
        health_check_interval=5,
    )
    return client


@dataclass(frozen=True, slots=True)
class Trimmed:
    """`left` counts the entries in the stream that are not taken in yet, and at most one that is."""

    trimmed: int
    left: int


class StreamReader:
    """One consumer of one stream. Not for several threads at once."""

    def __init__(
        self,
        redis: Redis,
        stream: str,
        *,
        consumer: str | None = None,
        group: str = GROUP,
        batch_entries: int = BATCH_ENTRIES,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self._redis = redis
        self._stream = stream
        self._group = group
        self.consumer = consumer or consumer_name()
        self._batch_entries = batch_entries
        self._batch_bytes = batch_bytes
        self._own_after: str | None = "0"
        self._read = redis.register_script(script("read"))
        self._claim = redis.register_script(script("claim"))
        self._inherit = redis.register_script(script("inherit"))
        self._trim = redis.register_script(script("entry_ids", "trim"))
        self._leave = redis.register_script(script("leave"))

    def look_back(self) -> None:
        """Read our own pending entries again before anything new. Call it after any trouble."""
        self._own_after = "0"

    def read(self, *, block_seconds: float = BLOCK_SECONDS) -> list[Entry]:
        """The next entries: our own pending ones first, then new ones, waiting for these for so long.

        Entries that were deleted from the stream while they were pending are acknowledged and left out.
        """
        try:
            return self._next(block_seconds)
        except ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
        # At 0 and not at $: what was published before us is there to be taken in.
        self._make_group()
        return self._next(block_seconds)

    def acknowledge(self, entries: Iterable[Entry]) -> None:
        """Say that these are taken in. Only after their commit."""
        ids = [entry.entry_id for entry in entries]
        if ids:
            self._redis.xack(self._stream, self._group, *ids)

    def reclaim(self, *, idle_seconds: float) -> int:
        """Take over what consumers left pending for so long, or died over; it is read next. Returns how many.

        The caller has seen that the database answers: else entries wander from one consumer to the other.
        """
        try:
            claimed = int(
                self._claim(
                    keys=[self._stream], args=[self._group, self.consumer, round(idle_seconds * 1000)]
                )
            )
            claimed += self._inherit_from_the_gone()
        except ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            self._make_group()
            return 0
        if claimed:
            log.info("took over entries that another consumer left", stream=self._stream, entries=claimed)
            self.look_back()
        return claimed

    def trim(self, *, keep_seconds: float = 0.0) -> Trimmed:
        """Drop what every group has taken in, but nothing younger than `keep_seconds`."""
        trimmed, left = self._trim(keys=[self._stream], args=[keep_seconds])
        return Trimmed(int(trimmed), int(left))

    def drop_idle_consumers(self, *, idle_seconds: float) -> int:
        """Delete consumers that have been gone for so long and have nothing pending."""
        return self._drop(idle_seconds, "")

    def leave(self) -> None:
        """Delete this consumer, unless something is pending for it: another reader reclaims that."""
        self._drop(0, self.consumer)

    def pending(self) -> int:
        """How many entries are delivered to some consumer of the group and not acknowledged."""
        try:
            summary: Any = self._redis.xpending(self._stream, self._group)
        except ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            return 0
        return int(summary["pending"])

    def _inherit_from_the_gone(self) -> int:
        """A killed intake's entries need not wait until they have been idle for long: its host can tell."""
        consumers: Any = self._redis.xinfo_consumers(self._stream, self._group)
        names = (_text(one["name"]) for one in consumers if one["pending"])
        gone = [name for name in names if is_gone(name, than=self.consumer)]
        if not gone:
            return 0
        return int(self._inherit(keys=[self._stream], args=[self._group, self.consumer, *gone]))

    def _drop(self, idle_seconds: float, name: str) -> int:
        try:
            return int(self._leave(keys=[self._stream], args=[self._group, round(idle_seconds * 1000), name]))
        except ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            return 0

    def _next(self, block_seconds: float) -> list[Entry]:
        while self._own_after is not None:
            found = self._fill(self._own_after, self._batch_entries)
            self._own_after = _text(found[-1][0]) if found else None
            if entries := self._entries(found):
                return entries
        found = self._fill(">", self._batch_entries)
        if not found and block_seconds > 0:
            found = self._wait(block_seconds)
        return self._entries(found)

    def _fill(self, start: str, count: int) -> list[Any]:
        found: list[Any] = self._read(
            keys=[self._stream], args=[self._group, self.consumer, start, count, self._batch_bytes]
        )
        return found

    def _wait(self, block_seconds: float) -> list[Any]:
        """A script cannot wait: take one entry when it comes, and what has come with it."""
        reply: Any = self._redis.execute_command(  # type: ignore[no-untyped-call] # redis-py has no types for it
            "XREADGROUP",
            "GROUP",
            self._group,
            self.consumer,
            "COUNT",
            1,
            "BLOCK",
            max(1, round(block_seconds * 1000)),
            "STREAMS",
            self._stream,
            ">",
        )
        if not reply:
            return []
        first = next(iter(reply.values())) if isinstance(reply, dict) else reply[0][1]
        more = self._fill(">", self._batch_entries - 1) if self._batch_entries > 1 else []
        return [*first, *more]

    def _entries(self, found: Sequence[Any]) -> list[Entry]:
        entries = []
        vanished = []
        for entry_id, fields in found:
            if not fields:
                vanished.append(entry_id)
                continue
            entries.append(read_entry(self._stream, _text(entry_id), _pairs(fields)))
        if vanished:
            log.warning(
                "entries were deleted while they were pending", stream=self._stream, entries=len(vanished)
            )
            self._redis.xack(self._stream, self._group, *vanished)
        return entries

    def _make_group(self) -> None:
        try:
            self._redis.xgroup_create(self._stream, self._group, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise


def _text(value: Any) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


def _pairs(fields: Any) -> dict[bytes, bytes]:
    """The fields of an entry, which come flat from a script and as a mapping from some clients."""
    if isinstance(fields, dict):
        return fields
    return dict(zip(fields[::2], fields[1::2], strict=True))
