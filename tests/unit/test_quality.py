"""How the quality of a memory is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.baselines import BASELINES, kept
from benchmarks.locomo import MemoryLine, Question, Score, content_words, conversations, scores
from benchmarks.quality import RULES, WITH_EMBEDDINGS, Row, main, missed_targets

ASKED = Question(content_words("the red canoe"), ("D1:2", "D3:4"))


def line(text: str, *turns: str) -> MemoryLine:
    return MemoryLine(text, frozenset(turns))


def test_only_lines_made_from_the_evidence_support_an_answer() -> None:
    """Words that happen to stand somewhere else prove nothing."""
    memory = [line("A red boat", "D1:2"), line("The canoe is blue", "D9:9")]

    (score,) = scores(memory, [ASKED])

    assert score == Score(supported=0.5, recall=0.5)


def test_an_answer_may_be_put_together_from_several_lines() -> None:
    """Questions about several sessions need several lines."""
    memory = [line("Something red", "D1:2"), line("It was a canoe", "D3:4")]

    (score,) = scores(memory, [ASKED])

    assert score == Score(supported=1.0, recall=1.0)


def test_a_question_without_words_in_its_answer_does_not_count() -> None:
    """It would be answered by anything, or by nothing."""
    assert scores([], [Question(frozenset(), ("D1:1",))]) == []


def test_what_is_kept_stays_within_the_budget() -> None:
    """A baseline that takes more than the others would win for no reason."""
    lines = [line("x" * 40, "D1:1"), line("y" * 400, "D1:2"), line("z" * 40, "D1:3")]

    assert kept(lines, 20) == [lines[0], lines[2]]


def row(name: str, supported: float, *, ours: bool = False, made_by_a_model: bool = False) -> Row:
    return Row(name, 2_000, supported, 0.5, ours=ours, made_by_a_model=made_by_a_model)


@pytest.mark.parametrize(
    ("rules", "local", "baseline", "model_made", "missed"),
    [
        (0.30, 0.30, 0.20, 0.40, 0),
        (0.20, 0.20, 0.20, 0.40, 1),
        (0.30, 0.29, 0.20, 0.40, 1),
        (0.10, 0.05, 0.20, 0.40, 2),
    ],
)
def test_rules_must_win_and_embeddings_must_not_lose(
    rules: float, local: float, baseline: float, model_made: float, missed: int
) -> None:
    """What a language model made is shown for reference and is no target."""
    rows = [
        row(RULES, rules, ours=True),
        row(WITH_EMBEDDINGS, local, ours=True),
        row("sentences by tf-idf", baseline),
        row("model-made observations", model_made, made_by_a_model=True),
    ]

    assert len(missed_targets(rows)) == missed


def test_without_data_it_says_where_to_get_it_and_succeeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """LoCoMo is not ours to ship, and a fresh clone has none."""
    assert main(["--data", str(tmp_path)]) == 0
    assert "snap-research/locomo" in capsys.readouterr().out


def test_every_baseline_keeps_lines_of_a_conversation(tmp_path: Path) -> None:
    """Each is computed from the same file by the same code."""
    turns = [
        {"speaker": "Ann", "dia_id": "D1:1", "text": "I keep bees. They live in Ghent!"},
        {"speaker": "Bo", "dia_id": "D1:2", "text": "How many hives?"},
    ]
    (tmp_path / "conv-1.json").write_text(
        json.dumps(
            {
                "conversation": {"session_1": turns, "session_1_date_time": "1:00 pm on 8 May, 2023"},
                "qa": [
                    {"question": "?", "answer": "bees", "evidence": ["D1:1"], "category": 4},
                    {"question": "?", "answer": "in May", "evidence": ["D1:1"], "category": 2},
                ],
                "observation": {"session_1_observation": {"Ann": [["Ann keeps bees.", "D1:1"]]}},
            }
        )
    )

    (conversation,) = conversations(tmp_path)

    assert conversation.questions == (Question(frozenset({"bees"}), ("D1:1",)),)
    for baseline in BASELINES:
        for ordered in baseline.orders(baseline.lines(conversation)):
            assert scores(kept(ordered, 100), conversation.questions) == [Score(1.0, 1.0)]
