"""The runbook: an entry for everything that can be red, and each entry says what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from takeaways.schemas.errors import DeadLetterReason
from takeaways.workers.jobs.outcomes import Outcome

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "runbook.md").read_text("utf-8")
RULES = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text("utf-8")
ALERTS = re.findall(r"- alert: (\w+)", RULES)
ENTRIES = dict(re.findall(r"^### ([^\n]+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
PARTS = ("You see", "It means", "At risk", "Do", "Over when")


def test_every_alert_leads_to_its_entry() -> None:
    """Whoever is woken up at night follows the link of the alert, and finds no entry for one that is gone."""
    links = re.findall(r"runbook: docs/runbook.md#(\w+)", RULES)

    assert [name for name in ENTRIES if name.startswith("Takeaways")] == ALERTS
    assert links == [name.lower() for name in ALERTS]


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_answers_the_five_questions(name: str) -> None:
    """What is seen, what it means, what is at risk, what to do, and how one knows that it is over."""
    said = re.findall(r"\*\*([A-Z][a-z ]+)\*\*", ENTRIES[name])

    assert [part for part in said if part in PARTS] == list(PARTS)


def test_severities_are_those_of_the_rules() -> None:
    """An entry that says `warn` for what pages somebody is not believed."""
    severities = re.findall(r"severity: (\w+)", RULES)
    told = [re.match(r"\n\*(\w+)\*", ENTRIES[name]) for name in ALERTS]

    assert [match and match[1] for match in told] == severities


def test_every_ending_of_a_job_has_an_entry() -> None:
    """A name in a table or a log can be looked up, and says whether somebody has to act."""
    _, _, endings = PAGE.partition("## Endings")
    rows = [line.strip("|").split("|") for line in endings.splitlines() if line.startswith("| `")]

    assert [row[0].strip(" `") for row in rows] == [outcome.value for outcome in Outcome]
    assert all(len(row) == 5 and all(cell.strip() for cell in row) for row in rows)


def test_every_reason_of_a_dead_letter_is_told() -> None:
    """Whoever finds a thousand of them learns from the reason whom to ask."""
    told = set(re.findall(r"`(\w+)`", ENTRIES["Dead letters pile up"]))

    assert {reason.value for reason in DeadLetterReason} <= told
