"""The server: real HTTP on loopback, a thread for each connection, a log of all that it was asked."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

from takeaways.workers.models import Call, MemoryModel
from takeaways.workers.models.requests import ConsolidationRequest
from takeaways.workers.testing.claude.checks import Refused, as_blocks, check, invalid
from takeaways.workers.testing.claude.material import read_material
from takeaways.workers.testing.claude.prompt_cache import LEAST_TOKENS, Counted, PromptCache, tokens_of
from takeaways.workers.testing.claude.script import OK, Break, Scripted
from takeaways.workers.testing.claude.served import DEFAULT_MODELS, Count, Served, dense_count
from takeaways.workers.testing.claude.wire import CHUNK, Answer, error_body, event, messages_of

_MOST_BODY: Final = 32 * 1024 * 1024
_LOOK_SECONDS: Final = 0.05
_THOUGHT: Final = "The material has to be read with care."

Rule = Callable[["Request"], Scripted | None]


@dataclass(slots=True)
class Request:
    """One request as the server saw it. The fields after `body` are set while it is answered.

    `client_left` is true when the client closed the connection before it had the whole answer.
    """

    number: int
    path: str
    headers: dict[str, str]
    body: Any
    at_seconds: float
    id: str
    status: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    stop_reason: str = ""
    client_left: bool = False
    done: bool = False

    @property
    def text(self) -> str:
        """All that the turns say, without the system prompt."""
        blocks = [block for turn in self.body["messages"] for block in as_blocks(turn["content"])]
        return "\n".join(block.get("text", "") for block in blocks)


@dataclass(slots=True)
class _Log:
    requests: list[Request] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0


class ClaudeServer:
    """A stand-in for the Messages API on `127.0.0.1`, to be used as a context manager.

    `answers` is the model that answers what Takeaways asks, `OfflineModel` unless given; `chat` answers everything
    else. `models` are those that it serves; `window` is a shorthand for a window of them all. `count` counts the
    tokens of a text. `counts` is how the count-tokens endpoint answers, None that there is none; without `lists`
    there is no Models API, without `streams` every answer comes whole: gateways are like that. A `script` (and
    `then`) says what happens to the next requests for messages, in order; afterwards `always` or `rule` decides.
    `heard` is told of each request when it is done. Safe to use from many threads.
    """

    def __init__(
        self,
        *,
        answers: MemoryModel | None = None,
        chat: Callable[[str], str] | None = None,
        models: Iterable[Served] | None = None,
        window: int | None = None,
        count: Count = dense_count,
        script: Iterable[Scripted] = (),
        always: Scripted | None = None,
        rule: Rule | None = None,
        counts: Scripted | None = OK,
        lists: bool = True,
        streams: bool = True,
        least_cached_tokens: int = LEAST_TOKENS,
        heard: Callable[[Request], None] | None = None,
        port: int = 0,
    ) -> None:
        served = DEFAULT_MODELS if models is None else tuple(models)
        if window is not None:
            served = tuple(Served(one.name, window, min(one.most_output or window, window)) for one in served)
        self.models: dict[str, Served] = {one.name: one for one in served}
        self.always = always
        self.rule = rule
        self.counts = counts
        self.lists = lists
        self.streams = streams
        self.count = count
        self._answers = answers
        self._heard = heard
        self._chat = chat or (
            lambda text: "This is a stand-in for a model. It answers only what it was made for."
        )
        self._script = deque(script)
        self._cache = PromptCache(count, least_tokens=least_cached_tokens)
        self._log = _Log()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._http = _Server(("127.0.0.1", port), _handler(self))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """For `ANTHROPIC_BASE_URL`."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead a program here."""
        return {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": "stand-in"}

    @property
    def requests(self) -> list[Request]:
        """Everything that was asked so far."""
        with self._lock:
            return list(self._log.requests)

    @property
    def messages(self) -> list[Request]:
        """The requests for an answer of a model, without counts and descriptions."""
        return [one for one in self.requests if one.path in ("/v1/messages", "/v1/chat/completions")]

    @property
    def most_at_once(self) -> int:
        """The most requests that were being answered at one moment."""
        with self._lock:
            return self._log.most_at_once

    def then(self, *script: Scripted) -> None:
        """Add to the script."""
        with self._lock:
            self._script.extend(script)

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Answer nothing more; hanging requests end."""
        self._stopping.set()
        if self._thread.is_alive():
            self._http.shutdown()
        self._http.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    # What the handler calls.

    def seen(self, path: str, headers: dict[str, str], body: Any) -> Request:
        with self._lock:
            log = self._log
            number = len(log.requests) + 1
            request = Request(number, path, headers, body, time.monotonic(), f"req_{number:06d}")
            log.requests.append(request)
            log.at_once += 1
            log.most_at_once = max(log.most_at_once, log.at_once)
            return request

    def left(self, request: Request) -> None:
        with self._lock:
            self._log.at_once -= 1
            request.done = True
        if self._heard is not None:
            self._heard(request)

    def scripted(self, request: Request) -> Scripted:
        with self._lock:
            if self._script:
                return self._script.popleft()
        ruled = self.rule(request) if self.rule else None
        return ruled or self.always or OK

    def served(self, name: Any) -> Served:
        model = self.models.get(str(name))
        if model is None:
            raise Refused(404, "not_found_error", f"model: {name}")
        return model

    def answer(self, request: Request, body: dict[str, Any], scripted: Scripted) -> Answer:
        """Check the request as the API does and make the answer. Raises `Refused`."""
        model = self.served(body.get("model"))
        check(body, model)
        tokens = tokens_of(body, self.count)
        request.input_tokens = tokens
        if model.window is not None and tokens > model.window:
            raise invalid(f"prompt is too long: {tokens} tokens > {model.window} maximum")
        if model.window is not None and tokens + body["max_tokens"] > model.window:
            raise invalid(
                f"input length and `max_tokens` exceed context limit: {tokens} + {body['max_tokens']} > {model.window}"
            )
        text = self._text(body) if scripted.text is None else scripted.text
        if scripted.reshape is not None:
            text = scripted.reshape(text)
        thinks = (body.get("thinking") or {}).get("type") in ("adaptive", "enabled")
        output, reason = self.count(text), "tool_use" if scripted.calls else "end_turn"
        if output > body["max_tokens"]:
            text, output, reason = self._cut(text, body["max_tokens"]), body["max_tokens"], "max_tokens"
        request.stop_reason = scripted.stop_reason or reason
        request.output_tokens = output + (self.count(_THOUGHT) if thinks else 0)
        return Answer(
            id=f"msg_{request.number:06d}",
            model=model.name,
            text=text,
            stop_reason=request.stop_reason,
            counted=self._cache.take(body) if request.path == "/v1/messages" else Counted(tokens, 0, 0),
            output_tokens=request.output_tokens,
            thought=_THOUGHT if thinks else "",
            category=scripted.category,
            calls=scripted.calls,
        )

    def _text(self, body: dict[str, Any]) -> str:
        said = "\n".join(
            block.get("text", "")
            for turn in body["messages"]
            if turn["role"] == "user"
            for block in as_blocks(turn["content"])
        )
        material = read_material(said)
        if material is None:
            return self._chat(said)
        with self._lock:
            if self._answers is None:
                from takeaways.workers.models.offline import OfflineModel

                self._answers = OfflineModel()
            model = self._answers
        if isinstance(material, ConsolidationRequest):
            return model.consolidate(material, Call()).answer.model_dump_json()
        return model.extract(material, Call()).answer.model_dump_json()

    def _cut(self, text: str, tokens: int) -> str:
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.count(text[:middle]) <= tokens else (low, middle - 1)
        return text[:low]

    def wait(self, seconds: float) -> bool:
        """Whether the server stopped meanwhile."""
        return self._stopping.wait(seconds)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is nothing to report; `Request.client_left` says so."""


class _Gone(Exception):
    """The connection ended, by the script or by the client."""


def _handler(server: ClaudeServer) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"claude": server})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "claude-stub"
    disable_nagle_algorithm = True
    claude: ClaudeServer

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """The log is `ClaudeServer.requests`."""

    def do_GET(self) -> None:
        self._handle({})

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(min(length, _MOST_BODY + 1))
        try:
            body = json.loads(raw) if length <= _MOST_BODY else None
        except ValueError:
            body = None
        self._handle(body)

    def _handle(self, body: Any) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        request = self.claude.seen(path, {name.lower(): value for name, value in self.headers.items()}, body)
        try:
            self._answer(request)
        except Refused as refused:
            self._error(request, refused.status, error_body(refused.type, refused.message, "", request.id))
        except (_Gone, OSError):
            self.close_connection = True
        except Exception as error:  # a fault of a test's own function, or of ours: it must be seen
            told = error_body("api_error", f"the stand-in failed: {error!r}", "", request.id)
            self._error(request, 500, told)
        finally:
            self.claude.left(request)

    def _answer(self, request: Request) -> None:
        self._check_headers(request)
        path = request.path
        listing = self.command == "GET" and self.claude.lists
        counts = self.claude.counts
        if listing and path == "/v1/models":
            models = [one.info() for one in self.claude.models.values()]
            self._json(request, 200, {"data": models, "has_more": False, "first_id": None, "last_id": None})
        elif listing and path.startswith("/v1/models/"):
            self._json(request, 200, self.claude.served(path.removeprefix("/v1/models/")).info())
        elif self.command == "POST" and path == "/v1/messages/count_tokens" and counts is not None:
            self._count(request, counts)
        elif self.command == "POST" and path == "/v1/messages":
            self._message(request, request.body, openai=False)
        elif self.command == "POST" and path == "/v1/chat/completions":
            self._message(request, messages_of(request.body), openai=True)
        else:
            raise Refused(404, "not_found_error", f"{self.command} {path} is not served here")

    def _count(self, request: Request, scripted: Scripted) -> None:
        if scripted.status != 200:
            told = error_body(scripted.type, scripted.message, scripted.code, request.id)
            self._error(request, scripted.status, told, scripted.headers)
            return
        check(request.body, self.claude.served(request.body.get("model")), counting=True)
        request.input_tokens = tokens_of(request.body, self.claude.count)
        self._json(request, 200, {"input_tokens": request.input_tokens})

    def _check_headers(self, request: Request) -> None:
        headers = request.headers
        if not (headers.get("authorization", "").startswith("Bearer ") or headers.get("x-api-key")):
            raise Refused(
                401, "authentication_error", "authorization: a bearer token or x-api-key is required"
            )
        if request.path == "/v1/messages" and "anthropic-version" not in headers:
            raise invalid("anthropic-version: header is required")
        if not isinstance(request.body, dict):
            raise invalid("the body is no JSON object, or larger than 32 MB")

    def _message(self, request: Request, body: Any, *, openai: bool) -> None:
        scripted = self.claude.scripted(request)
        streams = bool(request.body.get("stream") and self.claude.streams)
        if scripted.delay_seconds:
            self._pause(request, scripted.delay_seconds)
        if scripted.breaks is not None and not scripted.after_text:
            self._break(request, scripted)
        if scripted.status != 200 or (scripted.breaks is Break.ERROR_EVENT and not streams):
            status = scripted.status if scripted.status != 200 else 529
            told = error_body(scripted.type, scripted.message, scripted.code, request.id)
            self._error(request, status, told, scripted.headers)
            return
        if scripted.instead is not None:
            self._json(request, 200, scripted.instead)
            return
        answer = self.claude.answer(request, body, scripted)
        if not streams:
            content = json.dumps(answer.completion() if openai else answer.message()).encode()
            self._head(request, 200, {"content-length": str(len(content))})
            self._write(request, [content], scripted)
            return
        self._head(request, 200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        events = answer.completion_chunks() if openai else answer.events()
        self._write(request, events, scripted, chunked=True)

    def _write(
        self, request: Request, pieces: Iterable[bytes], scripted: Scripted, *, chunked: bool = False
    ) -> None:
        sent = list(pieces)
        if scripted.breaks is not None:
            half = len(sent) // 2 + 1
            sent = sent[:half] if chunked else [sent[0][: len(sent[0]) // 2]]
        for piece in _portions(sent, scripted.characters_a_second):
            if scripted.characters_a_second:
                self._pause(request, len(piece) / scripted.characters_a_second)
            self._put(request, piece, chunked=chunked)
        if scripted.breaks is not None:
            self._break(request, scripted, chunked=chunked)
        if chunked:
            self._put(request, b"", chunked=True)

    def _put(self, request: Request, piece: bytes, *, chunked: bool) -> None:
        try:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
            self.wfile.flush()
        except OSError as error:
            request.client_left = True
            raise _Gone from error

    def _break(self, request: Request, scripted: Scripted, *, chunked: bool = False) -> None:
        match scripted.breaks:
            case Break.HANG:
                self._pause(request, float("inf"))
            case Break.RESET:
                # Lingering for no time makes the kernel send a reset.
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.connection.close()
            case Break.ERROR_EVENT if chunked:
                told = error_body(scripted.type, scripted.message, scripted.code, request.id)
                self._put(request, event("error", error=told["error"], request_id=request.id), chunked=True)
                self._put(request, b"", chunked=True)
            case Break.CLOSE if chunked:
                self._put(request, b"", chunked=True)
        raise _Gone

    def _pause(self, request: Request, seconds: float) -> None:
        """Wait; ends early where the client leaves or the server stops."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._client_left():
                request.client_left = True
                raise _Gone
            if self.claude.wait(min(left, _LOOK_SECONDS)):
                raise _Gone

    def _client_left(self) -> bool:
        with contextlib.suppress(OSError, ValueError):
            readable, _, _ = select.select([self.connection], [], [], 0)
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        return True

    def _json(self, request: Request, status: int, value: Any) -> None:
        content = json.dumps(value).encode()
        self._head(request, status, {"content-length": str(len(content))})
        self._put(request, content, chunked=False)

    def _error(self, request: Request, status: int, value: Any, headers: Any = None) -> None:
        content = json.dumps(value).encode()
        self._head(request, status, {"content-length": str(len(content)), **(headers or {})})
        self._put(request, content, chunked=False)

    def _head(self, request: Request, status: int, headers: dict[str, str]) -> None:
        request.status = status
        self.send_response(status)
        reset = (datetime.now(UTC) + timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
        limits = {
            f"anthropic-ratelimit-{what}-{name}": value
            for what, limit in (("requests", 4_000), ("input-tokens", 2_000_000), ("output-tokens", 400_000))
            for name, value in (("limit", str(limit)), ("remaining", str(limit - 1)), ("reset", reset))
        }
        named = {"content-type": "application/json", "request-id": request.id, **limits, **headers}
        for name, value in named.items():
            self.send_header(name, value)
        self.end_headers()


def _portions(pieces: list[bytes], characters_a_second: float | None) -> Iterator[bytes]:
    """The pieces as they are, or in bits of which each takes about a tenth of a second."""
    if characters_a_second is None:
        yield from pieces
        return
    size = max(1, min(CHUNK, round(characters_a_second / 10)))
    for piece in pieces:
        yield from (piece[start : start + size] for start in range(0, len(piece), size))
