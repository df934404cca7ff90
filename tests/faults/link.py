"""A TCP link that can be cut in the ways in which real ones are: swallowed, delayed, reset, refused."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from enum import StrEnum
from types import TracebackType
from typing import Any, Final, Self

_CHUNK_BYTES: Final = 65_536


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
        self._open: set[asyncio.StreamWriter] = set()
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
        self._server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open.add(writer)
        far: asyncio.StreamWriter | None = None
        try:
            if self._mode is Mode.REFUSE:
                return
            far_reader, far = await self._connect()
            self._open.add(far)
            await asyncio.gather(self._pass_on(reader, far), self._pass_on(far_reader, writer))
        except OSError:
            pass
        finally:
            self._tasks.discard(task)
            for one in (writer, far):
                if one is not None:
                    self._open.discard(one)
                    one.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, str):
            return await asyncio.open_unix_connection(self._target)
        return await asyncio.open_connection(*self._target)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            if self._mode is Mode.SWALLOW:
                continue
            if self._mode is Mode.DELAY:
                await asyncio.sleep(self._delay_seconds)
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError, RuntimeError):
            writer.close()

    async def _reset(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _stop(self) -> None:
        self._server.close()
        await self._reset()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
