"""A TCP link that can be cut in the ways in which real ones are: swallowed, delayed, reset, refused."""

from __future__ import annotations

import asyncio
import threading
from enum import StrEnum
from types import TracebackType
from typing import Any, Self


class Mode(StrEnum):
    """What the link does with bytes and connections."""

    PASS = "pass"
    SWALLOW = "swallow"  # bytes vanish both ways, connections stay open: what a dead router looks like
    DELAY = "delay"
    REFUSE = "refuse"  # new connections are closed at once, open ones reset


class Link:
    """Listens on a port of 127.0.0.1 and passes bytes on to `target`, a (host, port) or a Unix socket's path."""

    def __init__(self, target: tuple[str, int] | str, *, delay_seconds: float = 0.3) -> None:
        self._target = target
        self._delay_seconds = delay_seconds
        self._mode = Mode.PASS
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.Transport] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="link", daemon=True)
        self.port = 0

    def start(self) -> Self:
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the link did not begin to listen")
        return self

    def set(self, mode: Mode) -> None:
        """Change what happens from now on."""
        self._mode = mode
        if mode is Mode.REFUSE:
            self.reset()

    def reset(self) -> None:
        """Reset every open connection (RST, without a goodbye)."""
        asyncio.run_coroutine_threadsafe(self._reset(), self._loop).result(10)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        listen = self._loop.create_server(lambda: _End(self), "127.0.0.1", 0)
        self._server = self._loop.run_until_complete(listen)
        self.port = self._server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()

    # --- for the ends of its connections, in the loop's thread ----------------------------------

    def opened(self, near: _End) -> None:
        """Somebody has connected: connect them on, unless that is refused."""
        self._open.add(near.transport)
        if self._mode is Mode.REFUSE:
            near.transport.abort()
        elif near.other is None:
            near.transport.pause_reading()
            task = self._loop.create_task(self._connect(near))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def received(self, end: _End, data: bytes) -> None:
        """Do with bytes what is done with them now. They stay in their order."""
        assert end.other is not None
        if self._mode is Mode.PASS and not end.delayed:
            end.other.transport.write(data)
        elif self._mode is not Mode.SWALLOW:
            end.transport.pause_reading()
            end.delayed += 1
            self._loop.call_later(self._delay_seconds, end.pass_on, data)

    def lost(self, end: _End) -> None:
        self._open.discard(end.transport)
        if end.other is not None:
            end.other.transport.close()

    async def _connect(self, near: _End) -> None:
        try:
            if isinstance(self._target, str):
                await self._loop.create_unix_connection(lambda: _End(self, near), self._target)
            else:
                await self._loop.create_connection(lambda: _End(self, near), *self._target)
        except OSError:
            near.transport.abort()

    async def _reset(self) -> None:
        for transport in list(self._open):
            transport.abort()

    async def _stop(self) -> None:
        self._server.close()
        await self._reset()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _End(asyncio.Protocol):
    """One of the two ends of a connection. Protocols, because streams take three times as much of the processor."""

    transport: asyncio.Transport

    def __init__(self, link: Link, other: _End | None = None) -> None:
        self._link = link
        self.other = other
        self.delayed = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._link.opened(self)
        if self.other is not None:
            self.other.other = self
            self.other.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        self._link.received(self, data)

    def pass_on(self, data: bytes) -> None:
        """What was delayed, and then what comes after it."""
        self.delayed -= 1
        if self.other is not None:
            self.other.transport.write(data)
        self.transport.resume_reading()

    def pause_writing(self) -> None:
        """The other side reads slowly: its sender waits."""
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._link.lost(self)
