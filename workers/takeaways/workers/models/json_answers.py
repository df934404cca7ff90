"""Reading an answer of our schema out of what a model wrote, without ever mending one that was cut.

The JSON may stand in a fence, have prose around it, an example or the model's thoughts before it, trailing commas
or comments: none of that changes a word. What is not complete, or would have to be guessed, is unreadable.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import regex
from pydantic import BaseModel, ValidationError

from takeaways.schemas.errors import AnswerUnreadable

_A = TypeVar("_A", bound=BaseModel)

_DECODER: Final = json.JSONDecoder(strict=False)  # a raw line break in a string is what was meant
_STRING: Final = r'"(?:[^"\\]|\\.)*+"'
_COMMENT: Final = regex.compile(rf"({_STRING})|/\*.*?\*/|//[^\n]*", regex.DOTALL)
_LAST_COMMA: Final = regex.compile(rf"({_STRING})|,(?=\s*[}}\]])", regex.DOTALL)
_NAME: Final = regex.compile(r"""\{\s*["'“]|["'”]\s*:""")
_STRUCTURE: Final = regex.compile(rf"{_STRING}|[{{}}\"]", regex.DOTALL)
_THOUGHTS: Final = regex.compile(r"\s*<(think|thinking|thought|reasoning)>", regex.IGNORECASE)
_THOUGHTS_END: Final = regex.compile(r"</(?:think|thinking|thought|reasoning)>", regex.IGNORECASE)
_MOST_PROBLEMS: Final = 8


def read_answer(text: str, schema: type[_A]) -> _A:
    """The answer in `text`. Raises `AnswerUnreadable`, which says what is wrong without quoting the text.

    Of several objects that fit, the last that holds anything is the answer: an example comes first.
    """
    text = text.strip("\ufeff \t\r\n")
    ends = _THOUGHTS_END.search(text)
    if _THOUGHTS.match(text):
        if ends is None:
            # What a model tries out while it thinks is no answer yet.
            raise AnswerUnreadable("the answer ends within the thoughts before it")
        return _read(text[ends.end() :], schema)
    try:
        return _read(text, schema)
    except AnswerUnreadable:
        # Servers that write the opening tag themselves pass on the closing one alone.
        if ends is None:
            raise
    return _read(text[ends.end() :], schema)


def _read(text: str, schema: type[_A]) -> _A:
    if not text.strip():
        raise AnswerUnreadable("the answer is empty")
    fitting: list[_A] = []
    problem = "there is no JSON object in the answer"
    for found in _objects(text):
        if found is None:
            # The answer was cut: neither a part of it nor an example before it may pass for it.
            raise AnswerUnreadable("the JSON of the answer is not complete")
        if isinstance(found, _Broken):
            problem = found.problem
            continue
        try:
            fitting.append(schema.model_validate(found))
        except ValidationError as error:
            problem = _explained(error)
    full = [answer for answer in fitting if any(answer.model_dump().values())]
    if full or fitting:
        return (full or fitting)[-1]
    raise AnswerUnreadable(problem)


@dataclass(frozen=True, slots=True)
class _Broken:
    problem: str


def _objects(text: str) -> Iterator[dict[str, Any] | _Broken | None]:
    """Every outermost JSON object, `_Broken` for what looks like one, None where one never ends."""
    whole = text.strip("\ufeff \t\r\n")
    if whole.startswith('"'):
        try:
            inner = _DECODER.decode(whole)
        except ValueError:
            inner = ""
        text = inner or text  # encoded twice
    at = text.find("{")
    while at >= 0:
        closed = _end(text, at)
        if closed is None:
            if _NAME.search(text, at):
                yield None
            return
        found = _decoded(text[at:closed])
        if found is not None:
            yield found
        at = text.find("{", closed)


def _end(text: str, start: int) -> int | None:
    """Behind the brace that closes the one at `start`; braces in strings do not count."""
    depth = 0
    for token in _STRUCTURE.finditer(text, start):
        if token[0] == "{":
            depth += 1
        elif token[0] == "}":
            depth -= 1
            if not depth:
                return token.end()
    return None


def _decoded(piece: str) -> dict[str, Any] | _Broken | None:
    """None for braces in prose: what has no quoted name inside is no object of ours."""
    for tried in (piece, _without(_LAST_COMMA, _without(_COMMENT, piece))):
        try:
            found: dict[str, Any] = _DECODER.decode(tried)
        except json.JSONDecodeError as error:
            problem = f"the JSON of the answer is broken: {error.msg} (line {error.lineno})"
        except RecursionError:
            problem = "the JSON of the answer is nested too deep"
        except ValueError:  # Python's own limit, which is no error of JSON's
            problem = "the JSON of the answer has a number of thousands of digits"
        else:
            return found
    return _Broken(problem) if _NAME.search(piece) else None


def _without(surplus: regex.Pattern[str], text: str) -> str:
    return surplus.sub(lambda match: match[1] or "", text)


def _explained(error: ValidationError) -> str:
    """Where it does not fit and why, by field. Names that the answer made up are not repeated."""
    told = []
    for problem in error.errors(include_url=False, include_input=False, include_context=False):
        path = problem["loc"][:-1] if problem["type"] == "extra_forbidden" else problem["loc"]
        where = ".".join(map(str, path)) or "the answer"
        told.append(f"{where}: {problem['msg']}")
    more = len(told) - _MOST_PROBLEMS
    return "; ".join(told[:_MOST_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
