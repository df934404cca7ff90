"""The kinds of lessons. On its own, because commands offer them without loading anything else."""

from __future__ import annotations

from enum import StrEnum


class Lesson(StrEnum):
    """What kind of lasting thing was learned."""

    RULE = "rule"
    CORRECTION = "correction"
    PREFERENCE = "preference"
    DECISION = "decision"
    PROCEDURE = "procedure"
    FAILURE = "failure"
    FACT = "fact"

    @property
    def needs_a_person(self) -> bool:
        """Whether only a person's own words can support it."""
        return self in (Lesson.RULE, Lesson.CORRECTION, Lesson.PREFERENCE)

    @property
    def must_obey(self) -> bool:
        """Whether it stands before everything else in the summary."""
        return self in (Lesson.RULE, Lesson.CORRECTION)
