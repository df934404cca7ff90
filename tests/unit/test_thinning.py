"""Which whole versions are kept: the newest, a person's, the last of each day and month. Accounts always are."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from takeaways.workers.consolidation.thinning import NEWEST, Version, superfluous

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOW_MS = 1_790_000_000_000


def every(hours: float, count: int, made_by: str = "consolidation") -> list[Version]:
    """`count` versions, one each so many hours, the newest now."""
    return [
        Version(number, round(NOW_MS - (count - number) * hours * HOUR_MS), made_by)
        for number in range(1, count + 1)
    ]


def kept(versions: list[Version]) -> list[int]:
    gone = superfluous(versions, NOW_MS)
    return [version.number for version in versions if version.number not in gone]


def test_a_short_history_is_kept_whole() -> None:
    """Nobody misses anything before there is much."""
    assert superfluous(every(1, NEWEST), NOW_MS) == []


def test_of_old_days_the_last_version_stays_and_of_old_months_too() -> None:
    """Two years of four consolidations a day become some hundred versions."""
    versions = every(6, 4 * 730)

    left = kept(versions)

    by_day = {(NOW_MS - version.made_at_ms) // DAY_MS for version in versions if version.number in left}
    assert len(left) < 150
    assert set(range(1, 89)) <= by_day
    assert left[0] == 1
    assert left[-NEWEST:] == [version.number for version in versions[-NEWEST:]]


def test_what_a_person_made_stays() -> None:
    """A pin or a rollback is a place that somebody may want to go back to."""
    versions = every(0.1, 500)
    versions[100] = Version(101, versions[100].made_at_ms, "pin")

    assert 101 in kept(versions)
    assert 100 not in kept(versions)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 400 * DAY_MS), min_size=1, max_size=200))
def test_thinning_twice_thins_no_more_and_never_the_newest(ages_ms: list[int]) -> None:
    """The current memory is what everybody reads; and a rule that thins again each time ends with nothing."""
    made = sorted(NOW_MS - age_ms for age_ms in ages_ms)
    versions = [Version(number, at_ms, "consolidation") for number, at_ms in enumerate(made, 1)]

    left = [version for version in versions if version.number in kept(versions)]

    assert superfluous(left, NOW_MS) == []
    assert left[-1] == versions[-1]
