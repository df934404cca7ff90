"""What the SDK raises, as the errors of our seam. Sorted by the error's type and code, never by its class."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from takeaways.schemas.errors import (
    FromModel,
    ModelFailed,
    ModelOverloaded,
    ModelParked,
    ModelRefused,
    ModelRejected,
    ParkedBecause,
    TooLong,
)
from takeaways.workers.models.anthropic.retry_after import retry_after_seconds

OVERLOADED_SECONDS: Final = 20.0
FAILED_SECONDS: Final = 5.0
PARKED_SECONDS: Final = 300.0

_SIZES: Final = re.compile(r"(?:\d\s*tokens?|\+\s*\d[\d,]*)\s*>\s*(\d[\d,]*)")
_LIMIT: Final = re.compile(r"(?:maximum|limit|context (?:length|window|size))\D{0,40}?(\d[\d,]{2,})")
_A_MINUTE: Final = re.compile(r"(\d[\d,]*) (?:input )?tokens per minute", re.IGNORECASE)
_OVER_THE_WINDOW: Final = re.compile(
    r"(?:prompt|input) is too long|context[ _]?(?:length|window|limit|size)", re.IGNORECASE
)
_TOO_LONG: Final = re.compile(
    rf"{_OVER_THE_WINDOW.pattern}|too many (?:input )?tokens|"
    r"maximum (?:context|prompt)|exceeds? the (?:model's )?(?:context|maximum)",
    re.IGNORECASE,
)
_BUSY: Final = re.compile(r"please wait|throttl|rate.?limit|too many requests", re.IGNORECASE)
_NO_CREDIT: Final = re.compile(
    r"credit balance|(?:spend(?:ing)?|usage) limit|regain access|billing|quota", re.IGNORECASE
)
_SHUT_OUT: Final = re.compile(
    r"(?:organi[sz]ation|account|workspace) (?:has been|is) disabled", re.IGNORECASE
)
_FILTERED: Final = re.compile(
    r"content[ _-]?(?:filter|policy|management)|(?:safety|usage) polic|sensitive words", re.IGNORECASE
)
_NO_CACHE: Final = re.compile(r"prompt caching", re.IGNORECASE)
_QUOTED: Final = re.compile(r"""(["'`“])[^"'`“”]{40,}(["'`”])""")
_MATERIAL: Final = re.compile(r'"[^"]{40,}"')
"""What was sent, where a message quotes it: its words are not the provider's."""
_BY_TYPE: Final = {
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "api_error": 500,
    "overloaded_error": 529,
    "exceed_context_size_error": 413,
}
_PARKED: Final = {
    401: (ParkedBecause.AUTHENTICATION, "the provider refuses the key; check ANTHROPIC_API_KEY"),
    402: (
        ParkedBecause.SPEND_LIMIT,
        "the provider bills no further; look at the account's limits and credit",
    ),
    403: (ParkedBecause.PERMISSION, "the key may not use this model; check its workspace and permissions"),
    404: (
        ParkedBecause.UNKNOWN_MODEL,
        "the provider does not know this model; check TAKEAWAYS_MODEL and ANTHROPIC_BASE_URL",
    ),
}


_FILTERED_STATUS: Final = -1
"""Ours, for an answer that a filter of the provider's keeps back: there is no status for it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error answer of the API as far as it matters: `type` and `code` are the body's, where it had any."""

    status: int
    type: str = ""
    code: str = ""
    message: str = ""
    request_id: str = ""
    headers: Mapping[str, str] | None = None

    @classmethod
    def of(cls, error: Any) -> Failure:
        """From the SDK's `APIStatusError`. A stream's error event has the status 200 of its answer."""
        return cls(
            status=error.status_code,
            type=str(error.type or ""),
            code=str(error.error_code or ""),
            message=str(error.api_message or "") or _told(error.body),
            request_id=str(error.request_id or ""),
            headers=dict(error.response.headers),
        )


def _told(body: Any) -> str:
    """What an error says whose body is not of the API's form, as those of gateways are. Never what was sent."""
    match body:
        case {"error": str(told)} | {"message": str(told)} | {"detail": str(told)}:
            return told
        case {"detail": list(problems)}:
            return "; ".join(
                f"{'.'.join(map(str, problem.get('loc') or ()))}: {problem.get('msg')}"
                for problem in problems
                if isinstance(problem, dict)
            )
    return ""


def ending_of(failure: Failure, model: str, now: datetime) -> FromModel:
    """The error to raise. Its text names model, status, type and request, and nothing that was sent."""
    said = _MATERIAL.sub("", failure.message)
    status = _status(failure, said)
    wait = retry_after_seconds(failure.headers or {}, now)
    known = ", ".join(
        filter(None, (f"HTTP {failure.status}", failure.code or failure.type, failure.request_id))
    )
    ending: FromModel
    if status in _PARKED:
        reason, advice = _PARKED[status]
        ending = ModelParked(reason, f"{model}: {advice} ({known})", PARKED_SECONDS, model=model)
    elif status in (429, 529):
        what = "limits its rate" if status == 429 else "is overloaded"
        seconds = OVERLOADED_SECONDS if wait is None else wait
        ending = ModelOverloaded(f"{model} {what} ({known})", seconds, model=model)
        ending.limit_tokens = _a_minute(failure, said)
    elif status == 413:
        ending = TooLong(f"{model}: the step is too long ({known})", _limit(said))
    elif status == _FILTERED_STATUS:
        ending = ModelRefused("content filter")
    elif status in (408, 409, 425, 499) or status >= 500 or status < 400:
        seconds = FAILED_SECONDS if wait is None else wait
        ending = ModelFailed(f"{model} did not answer ({known})", seconds, model=model)
    else:
        why = _QUOTED.sub(r"\1…\2", " ".join(failure.message.split()))[:200]
        ending = ModelRejected(f"{model}: the request was rejected ({known}){f': {why}' if why else ''}")
    ending.request_id = failure.request_id
    return ending


def _status(failure: Failure, said: str) -> int:
    """The status that fits what happened. What no retry cures comes as 400 as often as not, and the words tell."""
    if "spend_limit" in failure.code:
        return 402
    status = _BY_TYPE.get(failure.type, failure.status)
    if status < 400 and failure.type == "invalid_request_error":
        status = 400  # within a stream
    if status == 403 and _NO_CACHE.search(said):
        return 400
    if status in (400, 422):
        if _BUSY.search(said):
            return 429
        if _TOO_LONG.search(said):
            return 413
        if _NO_CREDIT.search(said):
            return 402
        if _SHUT_OUT.search(said):
            return 403
    elif status >= 500 and _OVER_THE_WINDOW.search(said):
        return 413
    if (status in (400, 422) or status >= 500) and _FILTERED.search(said):
        return _FILTERED_STATUS
    return status


def _limit(message: str) -> int | None:
    found = _SIZES.search(message) or _LIMIT.search(message.lower())
    return _number(found[1]) if found else None


def _a_minute(failure: Failure, said: str) -> int | None:
    """The tokens of input that the provider takes in a minute, from its words or else its headers."""
    if found := _A_MINUTE.search(said):
        return _number(found[1])
    headers = {name.lower(): value for name, value in (failure.headers or {}).items()}
    limits = (headers.get(f"anthropic-ratelimit-{what}tokens-limit", "") for what in ("input-", ""))
    return min((_number(limit) for limit in limits if limit.isdecimal()), default=None)


def _number(text: str) -> int:
    return int(text.replace(",", ""))
