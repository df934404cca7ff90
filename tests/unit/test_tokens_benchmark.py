"""The token bill: its targets, and what it does without the data."""

from __future__ import annotations

import pytest

from benchmarks.tokens import Bill, Sent, main, missed_targets


def bill(*, transcript: int = 1_000, memory: int = 300, cached: int = 500, unread: int = 0) -> Bill:
    extraction = Sent(calls=4, transcript=transcript, instructions=100, all=transcript + 100, cached=cached)
    consolidation = Sent(calls=4, memory=memory, candidates=200, instructions=100, all=memory + 300)
    return Bill(1_000, 700, 40, unread, extraction, consolidation, 20, 8, 100)


def test_instructions_are_told_apart_from_what_varies() -> None:
    """They are the same for every conversation, and the provider reads them from its cache."""
    assert (bill().ratio, bill().ratio_in_all) == (1.5, 1.7)
    assert missed_targets(bill()) == []


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (bill(transcript=1_200, memory=0), "1.20 x the transcript"),
        (bill(memory=900), "2.30 x was sent in all"),
        (bill(cached=0), "never read from the cache"),
        (bill(unread=3), "3 messages were not read"),
    ],
)
def test_a_missed_target_is_told_with_its_figure(found: Bill, told: str) -> None:
    """The command fails where the promise does not hold, and says by how much."""
    [sentence] = missed_targets(found)

    assert told in sentence


def test_without_the_conversation_it_says_where_to_get_it(
    tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """A checkout without the data is not broken."""
    assert main(["--data", str(tmp_path)]) == 0
    assert "snap-research/locomo" in " ".join(capsys.readouterr().out.split())
