"""The wire to the provider: one client of the SDK for a process, and one thread whose event loop holds all calls.

A thread that waits in a socket cannot be called off; a task of an event loop can. So a call whose lease is lost,
or that runs out of time, closes its HTTP request at once, and hundreds of calls need no thread of their own.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import threading
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Final, TypeVar

from takeaways.schemas.errors import CallAborted, FromModel, ModelFailed, ModelParked, ParkedBecause
from takeaways.workers.models.anthropic.endings import FAILED_SECONDS, PARKED_SECONDS, Failure, ending_of
from takeaways.workers.models.anthropic.reply import Incoming, Reply
from takeaways.workers.models.seam import Call

T = TypeVar("T")

_LOOK_SECONDS: Final = 0.1
"""How often a call in flight looks at its abort flag."""
_CONNECT_SECONDS: Final = 10.0


class Connection:
    """Make it after any fork, and keep it: a client takes tens of milliseconds to make. Safe to use from many threads.

    `options` are those of the SDK's `AsyncAnthropic`. The SDK's own retries are off: they would wait for as long
    as a provider likes, with the lease held.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._made: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="model-calls", daemon=True)
        self._thread.start()

    def _client(self) -> Any:
        """The SDK's client, made with the first call, within what translates its errors."""
        if self._made is None:
            # Imported late: it takes two seconds, and most processes never ask a model.
            import anthropic

            timeout = anthropic.Timeout(None, connect=_CONNECT_SECONDS, pool=_CONNECT_SECONDS)
            self._made = anthropic.AsyncAnthropic(**{"max_retries": 0, "timeout": timeout, **self._options})
        return self._made

    def send(self, model: str, body: dict[str, Any], call: Call) -> Reply:
        """Send one request to the Messages API; returns the reply when it has stopped, for whatever reason.

        Raises the errors of the seam; they say what was spent so far.
        """
        incoming = Incoming()

        async def work() -> Reply:
            stream: Any = await self._client().messages.create(**body, stream=True)
            async with stream:
                incoming.request_id = stream.response.headers.get("request-id", "")
                if "json" in stream.response.headers.get("content-type", ""):
                    await _take_whole(stream, incoming, model)
                else:
                    async for event in stream:
                        incoming.take(event)
            if (reply := incoming.reply()) is not None:
                return reply
            raise ModelFailed(
                f"{model}: the answer broke off ({incoming.request_id})", FAILED_SECONDS, model=model
            )

        try:
            return self._run(work, model, call)
        except FromModel as ending:
            ending.spent = ending.spent + incoming.usage if incoming.request_id else ending.spent
            ending.request_id = ending.request_id or incoming.request_id
            raise

    def count(self, model: str, body: dict[str, Any], call: Call) -> int:
        """Tokens of a request, as the provider counts them. Raises the errors of the seam."""

        async def work() -> int:
            return int((await self._client().messages.count_tokens(**body)).input_tokens)

        return self._run(work, model, call)

    def describe(self, model: str, call: Call) -> Any:
        """The Models API's `ModelInfo`. Raises the errors of the seam."""

        async def work() -> Any:
            return await self._client().models.retrieve(model)

        return self._run(work, model, call)

    def close(self) -> None:
        """Close the client and end the thread. Calls in flight are called off."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(timeout=5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        self._loop.close()

    async def _end(self) -> None:
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if self._made is not None:
            await self._made.close()

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]], model: str, call: Call) -> T:
        if call.abort.is_set():
            raise CallAborted(f"{model}: the call was called off before it began")
        deadline = time.monotonic() + call.timeout_seconds
        running = asyncio.run_coroutine_threadsafe(_watched(work, model, call, deadline), self._loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()  # of use for an interrupt of the waiting thread; the others have ended
            raise


async def _watched(work: Callable[[], Coroutine[Any, Any, T]], model: str, call: Call, deadline: float) -> T:
    """Do the work until it ends, the abort flag is set or the time is over; then the request is closed."""
    task = asyncio.ensure_future(_translated(work, model))
    try:
        while True:
            left = deadline - time.monotonic()
            done, _ = await asyncio.wait({task}, timeout=max(0.0, min(left, _LOOK_SECONDS)))
            if done:
                return task.result()
            if call.abort.is_set():
                raise CallAborted(f"{model}: the call was called off")
            if left <= 0:
                raise ModelFailed(
                    f"{model}: no whole answer within {round(call.timeout_seconds, 1):g} s",
                    FAILED_SECONDS,
                    model=model,
                )
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _translated(work: Callable[[], Coroutine[Any, Any, T]], model: str) -> T:
    import anthropic
    import httpx2

    try:
        return await work()
    except anthropic.APIStatusError as error:
        raise ending_of(Failure.of(error), model, datetime.now(UTC)) from error
    except (anthropic.CredentialsError, TypeError) as error:
        # The SDK's own type for a missing key; anything else of that type is a mistake of ours.
        if isinstance(error, TypeError) and "authentication" not in str(error):
            raise
        raise ModelParked(
            ParkedBecause.AUTHENTICATION,
            f"{model}: there is no key that can be used; set ANTHROPIC_API_KEY (any text for a local server)",
            PARKED_SECONDS,
            model=model,
        ) from error
    except (
        anthropic.APIError,
        httpx2.HTTPError,
        httpx2.StreamError,
        httpx2.InvalidURL,
        RecursionError,
        ValueError,
    ) as error:
        # The last two: what came is no JSON, or nested too deep.
        cause = error.__cause__ or error
        if isinstance(cause, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
            raise ModelParked(
                ParkedBecause.ADDRESS,
                f"{model}: ANTHROPIC_BASE_URL is no address; it begins with http:// or https://, or is not set",
                PARKED_SECONDS,
                model=model,
            ) from error
        if isinstance(cause, httpx2.LocalProtocolError):
            raise ModelParked(
                ParkedBecause.AUTHENTICATION,
                f"{model}: the key cannot be sent; look for a line break or a blank in ANTHROPIC_API_KEY",
                PARKED_SECONDS,
                model=model,
            ) from error
        what = type(cause).__name__
        raise ModelFailed(f"{model} did not answer ({what})", FAILED_SECONDS, model=model) from error


async def _take_whole(stream: Any, incoming: Incoming, model: str) -> None:
    """Take in a message that comes at once, or the error that some gateways send in its place, with the status 200."""
    body = await stream.response.aread()
    message = json.loads(body, object_hook=lambda fields: SimpleNamespace(**fields))
    if (error := getattr(message, "error", None)) is not None:
        failure = Failure(
            200,
            str(getattr(error, "type", "")),
            message=str(getattr(error, "message", error)),
            request_id=incoming.request_id,
        )
        raise ending_of(failure, model, datetime.now(UTC))
    incoming.take_message(message)


_shared: dict[int, Connection] = {}
_sharing: threading.Lock = threading.Lock()


def shared_connection() -> Connection:
    """The connection of this process, made with the first call from the SDK's environment variables."""
    with _sharing:
        made = _shared.get(os.getpid())
        if made is None:
            _shared.clear()  # a parent's: its thread does not run here
            made = _shared[os.getpid()] = Connection()
            atexit.register(made.close)
        return made


def close_shared_connection() -> None:
    """Close the connection of this process; the next call makes another one, from the variables as they are then."""
    with _sharing:
        made = _shared.pop(os.getpid(), None)
    if made is not None:
        atexit.unregister(made.close)
        made.close()


def _forked() -> None:
    global _sharing
    _sharing = threading.Lock()


os.register_at_fork(after_in_child=_forked)
