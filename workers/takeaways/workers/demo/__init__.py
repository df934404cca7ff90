"""Conversations that we wrote ourselves, for the demo, for examples and for tests that want a real story."""

from __future__ import annotations

from takeaways.workers.demo.story import KeyFact, Question, Story, story

__all__ = ["KeyFact", "Question", "Story", "story"]
