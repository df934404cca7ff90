"""Which model works for which agent, and by which window its steps are measured."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import structlog

from takeaways.schemas.errors import ModelFailed
from takeaways.schemas.queues import Kind
from takeaways.workers.models.prices import PRICES, Price
from takeaways.workers.models.resolve import AgentModel, WorkingModels
from takeaways.workers.models.shelf import ModelShelf, OneModel
from takeaways.workers.models.windows import WindowSettings
from takeaways.workers.testing import ScriptedModel


class Provided(ScriptedModel):
    """A model of a provider that has `claude-large` and `claude-small`, or does not answer."""

    def __init__(self, name: str, *, down: bool = False) -> None:
        super().__init__(window={"claude-large": 200_000, "claude-small": 50_000}.get(name, 32_000))
        self.name = name
        self._down = down

    def serves(self) -> bool:
        if self._down:
            raise ModelFailed("no connection")
        return self.name in ("claude-large", "claude-small")


@dataclass
class Maker:
    made: list[str] = field(default_factory=list)
    down: bool = False

    def __call__(self, name: str) -> Provided:
        self.made.append(name)
        return Provided(name, down=self.down)


def shelf(
    maker: Maker, choice: WorkingModels | None = None, windows: WindowSettings | None = None
) -> ModelShelf:
    return ModelShelf(
        choice or WorkingModels("claude-large"),
        maker,
        maker,
        windows or WindowSettings(),
        {"claude-small": Price(input=1, output=2)},
    )


@pytest.mark.parametrize(
    ("agent", "works", "window"),
    [
        (AgentModel(), "claude-large", 200_000),
        (AgentModel("claude-large"), "claude-large", 200_000),
        (AgentModel("claude-small"), "claude-small", 50_000),
        (AgentModel("claude-small", 40_000), "claude-small", 40_000),
        (AgentModel("house-model", 8_000), "claude-large", 8_000),
        (AgentModel("house-model", 900_000), "claude-large", 200_000),
        (AgentModel("house-model"), "claude-large", 32_000),
        (AgentModel(None, 60_000), "claude-large", 60_000),
    ],
)
def test_the_agents_own_model_works_where_the_provider_has_it_and_the_smaller_window_governs(
    agent: AgentModel, works: str, window: int
) -> None:
    """A memory that its agent cannot hold is of no use, whoever wrote it."""
    chosen = shelf(Maker()).chosen(Kind.EXTRACTION, agent)

    assert (chosen.model.name, chosen.window) == (works, window)


def test_a_kind_of_job_may_have_a_model_of_its_own() -> None:
    """Reading much with a small model and merging little with a large one is the cheap way."""
    maker = Maker()
    models = shelf(maker, WorkingModels("claude-large", {Kind.EXTRACTION: "claude-small"}))

    assert models.name_for(Kind.EXTRACTION, AgentModel("claude-large")) == "claude-small"
    assert models.name_for(Kind.CONSOLIDATION, AgentModel()) == "claude-large"
    assert models.chosen(Kind.EXTRACTION, AgentModel()).window == 50_000
    assert models.chosen(Kind.EXTRACTION, AgentModel("claude-large")).window == 50_000


def test_settings_outrank_what_event_and_provider_say() -> None:
    """Who runs a gateway knows its limits."""
    windows = WindowSettings(by_name={"claude-small": 10_000, "house-model": 6_000})
    models = shelf(Maker(), windows=windows)

    assert models.chosen(Kind.EXTRACTION, AgentModel("claude-small", 40_000)).window == 10_000
    assert models.chosen(Kind.EXTRACTION, AgentModel("house-model", 9_000)).window == 6_000


def test_a_provider_that_does_not_answer_leaves_the_default_at_work() -> None:
    """Which model an agent has is asked in passing: it must not be what stops the job."""
    models = shelf(Maker(down=True))

    assert models.name_for(Kind.EXTRACTION, AgentModel("claude-small")) == "claude-large"


def test_a_model_is_made_once_and_a_name_from_an_event_is_no_code_to_import() -> None:
    """Events come from other services; their model names reach the provider and nothing else."""
    operators, providers = Maker(), Maker()
    models = ModelShelf(WorkingModels("claude-large"), operators, providers)

    for agent in ("os:system", "os:system", "claude-small", "claude-small"):
        models.chosen(Kind.EXTRACTION, AgentModel(agent))

    assert operators.made == ["claude-large"]
    assert providers.made == ["os:system", "claude-small"]


def test_a_window_that_nobody_knows_is_warned_of_once() -> None:
    """A line a job about the same model would hide everything else."""
    models = shelf(Maker())

    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            models.chosen(Kind.EXTRACTION, AgentModel("nobody-knows-this-one"))

    assert [line["model"] for line in logs if line["log_level"] == "warning"] == ["nobody-knows-this-one"]


def test_prices_go_with_the_model() -> None:
    """The bill is that of the model that worked, not of the one that was asked for."""
    chosen = shelf(Maker()).chosen(Kind.EXTRACTION, AgentModel("claude-small"))

    assert chosen.price == Price(input=1, output=2)
    assert shelf(Maker()).chosen(Kind.EXTRACTION, AgentModel()).price is None
    assert OneModel(ScriptedModel()).chosen(Kind.EXTRACTION, AgentModel()).price == PRICES.get("scripted")
