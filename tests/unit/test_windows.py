"""Which window a step is measured by, and which model works, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from takeaways.schemas.queues import Kind
from takeaways.workers.models.resolve import AgentModel, WorkingModels, working_name
from takeaways.workers.models.windows import (
    DEFAULT_WINDOW,
    Window,
    WindowSettings,
    WindowSource,
    governing,
    resolve_window,
)
from tests.cases import case


def test_a_window_that_cannot_be_is_as_good_as_none() -> None:
    """0, "200k" or a trillion would switch the limit off, and every call would be refused."""
    found = case("MA-10")

    for name in found["models"]:
        for reported in found["reported_window"]:
            assert resolve_window(name, reported) == Window(DEFAULT_WINDOW, WindowSource.DEFAULT)


@pytest.mark.parametrize(
    "nonsense", [True, float("nan"), float("inf"), [], {}, "", "8000", 999, -8000, b"8000"]
)
def test_nothing_but_a_number_of_tokens_is_a_window(nonsense: Any) -> None:
    """Whatever a gateway reports in that field, a step has a limit."""
    assert resolve_window("house-model", nonsense, told=nonsense).tokens == DEFAULT_WINDOW


@pytest.mark.parametrize(
    ("settings", "told", "reported", "expected"),
    [
        (WindowSettings(for_all=9_000), 8_000, 7_000, Window(9_000, WindowSource.SETTINGS)),
        (WindowSettings(by_name={"m": 6_000}), 8_000, 7_000, Window(6_000, WindowSource.SETTINGS)),
        (WindowSettings(9_000, {"m": 6_000}), 8_000, 7_000, Window(6_000, WindowSource.SETTINGS)),
        (WindowSettings(by_name={"other": 6_000}), 8_000, 7_000, Window(8_000, WindowSource.EVENT)),
        (WindowSettings(), None, 7_000, Window(7_000, WindowSource.PROVIDER)),
        (WindowSettings(), 0, 1_000_000.0, Window(1_000_000, WindowSource.PROVIDER)),
    ],
)
def test_who_says_how_large_a_window_is(
    settings: WindowSettings, told: int | None, reported: Any, expected: Window
) -> None:
    """The operator outranks the event, which outranks the provider."""
    assert resolve_window("m", reported, told=told, settings=settings) == expected


def test_the_smaller_window_governs() -> None:
    """What is remembered must fit the agent that reads it, and the model that writes it."""
    small, large = Window(8_000, WindowSource.EVENT), Window(200_000, WindowSource.PROVIDER)

    assert (governing(large, small), governing(small, large), governing(large, None)) == (
        8_000,
        8_000,
        200_000,
    )


@pytest.mark.parametrize(
    ("choice", "agent", "expected"),
    [
        (WorkingModels("default"), AgentModel("own"), "own"),
        (WorkingModels("default"), AgentModel("foreign"), "default"),
        (WorkingModels("default"), AgentModel(), "default"),
        (WorkingModels("default"), AgentModel(""), "default"),
        (WorkingModels("default", {Kind.EXTRACTION: "small"}), AgentModel("own"), "small"),
        (WorkingModels("default", {Kind.CONSOLIDATION: "large"}), AgentModel("own"), "own"),
    ],
)
def test_which_model_works(choice: WorkingModels, agent: AgentModel, expected: str) -> None:
    """An agent's own model reads its rooms best; what the operator chose for this work goes first."""
    assert working_name(Kind.EXTRACTION, choice, agent, lambda name: name == "own") == expected
