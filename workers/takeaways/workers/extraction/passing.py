"""What a model offers as lasting although it passes: one-off requests, progress, chatter of the harness.

Only what is plain from the wording alone is refused here, whatever model it comes from; the rest is for the
instructions. A sentence that says that it holds for good is never taken for passing.
"""

from __future__ import annotations

from typing import Final

import regex

from takeaways.workers.extraction.inserted import pieces

_LASTS: Final = regex.compile(
    r"\b(?:always|never|every|each|by default|from now on|going forward|whenever|any ?time|prefers?|must|should|"
    r"instead of|rather than|because|fails?|failed|fix(?:es|ed)?|caused|requires?|decided|agreed)\b",
    regex.IGNORECASE,
)
_SUBJECT: Final = r"(?:(?:the )?(?:user|customer|person|client|human|requester)|[\p{Lu}][\p{L}.'-]+)"
_ONE_OFF: Final = regex.compile(
    rf"^{_SUBJECT}(?: has| had| is| was)? (?:asked|requested|requests|asks|asking|requesting|inquired|"
    r"wants? to know|wanted to know|wonder(?:s|ed)|would like (?:help|to know|an answer)|needs? help|"
    r"is looking for (?:help|an answer)|thanked|greeted|said (?:hello|hi|thanks|thank you))\b",
)
_PROGRESS: Final = regex.compile(
    r"^(?:the )?(?:agent|assistant|bot|ai|model)(?:'ve| have| has| had)?(?: just| already| now)? "
    r"(?:updated|created|added|ran|run|finished|completed|pushed|committed|started|checked|reviewed|implemented|"
    r"opened|closed|sent|wrote|answered|replied|provided|explained|summari[sz]ed|helped|looked|searched|fetched|"
    r"read|called|is (?:working|waiting)|are (?:working|waiting))\b"
    r"|^(?:next steps?|to ?do|status|progress|in progress|done|wip)\s*[:\-–]"
    r"|^(?:the )?(?:task|work|job|change|migration|build|deploy(?:ment)?|tests?|pull request|pr)\b.{0,40}"
    r"\b(?:is|are|was|were) (?:now |still )?(?:done|complete|completed|finished|in progress|running|passing|under way|"
    r"ongoing|merged|half[- ]done|pending)\b.{0,20}$"
    r"|^(?:currently|right now|at the moment|so far),? ",
    regex.IGNORECASE,
)
_ENVELOPE: Final = regex.compile(
    r"<\|[a-z_]{2,20}\|>|\[/?INST\]|<</?SYS>>|^\s*(?:system|assistant|developer)\s*:\s|"
    r"</?(?:function_calls?|tool_(?:use|call|result)s?|invoke|antml:\w+|system)\b|"
    r"\[Request interrupted by user|^\s*```(?:json|tool)",
    regex.IGNORECASE,
)


def is_one_off(text: str) -> bool:
    """Whether it only says that somebody asked for something once."""
    return _ONE_OFF.search(text) is not None and _LASTS.search(text) is None


def is_progress(text: str) -> bool:
    """Whether it only says how far the work is."""
    return _PROGRESS.search(text) is not None and _LASTS.search(text) is None


def is_of_the_harness(text: str) -> bool:
    """Whether it is, or forges, what programs write around a conversation: reminders, role tags, calls."""
    return _ENVELOPE.search(text) is not None or any(inserted for inserted, _ in pieces(text))
