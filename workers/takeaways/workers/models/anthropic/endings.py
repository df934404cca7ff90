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
    ModelRejected,
    ParkedBecause,
    TooLong,
)
from takeaways.workers.models.anthropic.retry_after import retry_after_seconds

OVERLOADED_SECONDS: Final = 20.0
FAILED_SECONDS: Final = 5.0
PARKED_SECONDS: Final = 300.0

_SIZES: Final = re.compile(r"(\d[\d,]*)\s*tokens?\s*>\s*(\d[\d,]*)\s*max")
_LIMIT: Final = re.compile(r"(?:maximum|limit|context (?:length|window))\D{0,40}?(\d[\d,]{2,})")
_TOO_LONG: Final = re.compile(
    r"(?:prompt|input) is too long|too many (?:input )?tokens|context[ _](?:length|window|limit)|"
    r"maximum (?:context|prompt)|exceeds? the (?:model's )?(?:context|maximum)",
    re.IGNORECASE,
)
_NO_CREDIT: Final = re.compile(r"credit balance|spend(?:ing)? limit|billing|quota", re.IGNORECASE)
_QUOTED: Final = re.compile(r"""(["'`“])[^"'`“”]{40,}(["'`”])""")
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
            message=str(error.api_message or ""),
            request_id=str(error.request_id or ""),
            headers=dict(error.response.headers),
        )


def ending_of(failure: Failure, model: str, now: datetime) -> FromModel:
    """The error to raise. Its text names model, status, type and request, and nothing that was sent."""
    status = _BY_TYPE.get(failure.type, failure.status)
    wait = retry_after_seconds(failure.headers or {}, now)
    known = ", ".join(
        filter(None, (f"HTTP {failure.status}", failure.code or failure.type, failure.request_id))
    )
    ending: FromModel
    if "spend_limit" in failure.code:
        status = 402
    if status == 400 and _NO_CREDIT.search(failure.message) and not _TOO_LONG.search(failure.message):
        status = 402
    if status in _PARKED:
        reason, advice = _PARKED[status]
        ending = ModelParked(reason, f"{model}: {advice} ({known})", PARKED_SECONDS, model=model)
    elif status in (429, 529):
        what = "limits its rate" if status == 429 else "is overloaded"
        seconds = OVERLOADED_SECONDS if wait is None else wait
        ending = ModelOverloaded(f"{model} {what} ({known})", seconds, model=model)
    elif status == 413 or (status in (400, 422) and _TOO_LONG.search(failure.message)):
        ending = TooLong(f"{model}: the step is too long ({known})", _limit(failure.message))
    elif status in (408, 409, 425, 499) or status >= 500 or status < 400:
        seconds = FAILED_SECONDS if wait is None else wait
        ending = ModelFailed(f"{model} did not answer ({known})", seconds, model=model)
    else:
        why = _QUOTED.sub(r"\1…\2", " ".join(failure.message.split()))[:200]
        ending = ModelRejected(f"{model}: the request was rejected ({known}){f': {why}' if why else ''}")
    ending.request_id = failure.request_id
    return ending


def _limit(message: str) -> int | None:
    found = _SIZES.search(message)
    text = found[2] if found else (other[1] if (other := _LIMIT.search(message.lower())) else None)
    return int(text.replace(",", "")) if text else None
