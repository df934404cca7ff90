"""Cutting a message into sentences, each a verbatim piece of it.

Code, tables, quoted lines, headings and markup are left out: nobody says them. Paragraphs that are wrapped at
a fixed width are read as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import regex

MAX_SENTENCE: Final = 500
_FENCE: Final = regex.compile(r"^(?:```|~~~)", regex.MULTILINE)
# What stands below was written by others.
_FORWARDED: Final = regex.compile(
    r"^[ \t]*(?:-{2,}[ \t]*(?:forwarded message|original message|forwarded by|weitergeleitete nachricht|"
    r"ursprüngliche nachricht|message transféré|message d'origine|mensaje reenviado)|begin forwarded message:"
    r"|(?:on|am|le|el) [^\n]{6,120} (?:wrote|schrieb[^\n:]{0,60}|a écrit|escribió) ?:[ \t]*$)",
    regex.IGNORECASE | regex.MULTILINE,
)
_LIST_MARK: Final = regex.compile(r"\s*(?:[-*+•]|\d{1,2}[.)])\s+|\s*")
_NOT_PROSE: Final = regex.compile(
    r"\s*(?:>|\||#{1,6}\s|[-=_*]{3,}\s*$|</?[a-zA-Z!][^>]*>|\$ |>>> |[{}\[\]();]\s*$|File \"|Traceback )"
    r"|\s{4,}at |.*(?:[{};]|\)\s*:|=>)\s*$|\s*[\w.]+\s*=\s*\S+\s*$"
    r"|\s*(?:import|from|def|class|return|if|for|while|const|let|var)\b.*[=(:{;]\s*$"
)
_MARKUP_START: Final = regex.compile(r"<([a-z][a-z0-9_-]*)(?:\s[^>]*)?>")
# Possessive, and begun only where a run begins: a line of ten thousand dots is read once, not from every dot.
_END: Final = regex.compile(
    r"(?<![.!?…])[.!?…]++[\"'”’)\]*_]*+[\p{Extended_Pictographic}\ufe0f]*+\s++(?=[^\p{Ll}\s])"
    r"|(?<![!?])[!?]++(?=[A-Z\p{Extended_Pictographic}])|[。！？｡]+[」』”）]*|[।॥؟۔]+\s*"
    r"|(?<!\p{Extended_Pictographic})\p{Extended_Pictographic}[\p{Extended_Pictographic}\ufe0f\s]*+(?<=\s)"
)
_ABBREVIATION: Final = regex.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|mr|mrs|ms|dr|prof|st|nr|approx|inc|ltd|jr|sr|fig|z\.b|d\.h|bzw|usw|ca)\."
    r"|\b[A-Z]\.)\s*$",
    regex.IGNORECASE,
)


def sentences(text: str) -> Iterator[str]:
    """The sentences of `text`, in order; each stands in it letter for letter. Very long ones are left out, and so is a
    letter of somebody else below the speaker's own words.
    """
    if forwarded := _FORWARDED.search(text):
        text = text[: forwarded.start()]
    for start, end in _paragraphs(text):
        at = start
        for stop in _END.finditer(text, start, end):
            if _ABBREVIATION.search(text, max(at, stop.start() - 12), stop.end()):
                continue
            yield from _trimmed(text[at : stop.end()])
            at = stop.end()
        yield from _trimmed(text[at:end])


def _trimmed(piece: str) -> Iterator[str]:
    piece = piece.strip()
    if 2 < len(piece) <= MAX_SENTENCE:
        yield piece


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Stretches of prose: a line, or several lines that were wrapped."""
    fenced, block, start, end = False, "", -1, -1
    position = 0
    for line in text.splitlines(keepends=True):
        begin, position = position, position + len(line)
        if _FENCE.match(line.lstrip()):
            fenced = not fenced
        markup = _MARKUP_START.match(line.lstrip())
        if markup and not block:
            block = markup.group(1)
        inside = fenced or bool(block)
        if block and f"</{block}>" in line:
            block = ""
        if inside or _FENCE.match(line.lstrip()) or not line.strip() or _NOT_PROSE.match(line):
            if start >= 0:
                yield start, end
            start = -1
            continue
        mark = _LIST_MARK.match(line)
        body = begin + (mark.end() if mark else 0)
        wrapped = start >= 0 and end - start > 50 and line[:1].islower() and text[end - 1] not in ".!?:。"
        if not wrapped:
            if start >= 0:
                yield start, end
            start = body
        end = begin + len(line.rstrip())
    if start >= 0:
        yield start, end
