"""The models that work in this process, each made once, and which of them works for an agent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from takeaways.schemas.errors import ModelUnavailable
from takeaways.schemas.queues import Kind
from takeaways.workers.models.prices import PRICES, Price, price_of
from takeaways.workers.models.resolve import AgentModel, WorkingModels, working_name
from takeaways.workers.models.seam import MemoryModel
from takeaways.workers.models.windows import Window, WindowSettings, governing, plausible, resolve_window

log = structlog.get_logger(__name__)

_MOST_MODELS: Final = 256
"""Names come from events. A fleet that names more has its models made again, which costs a look-up each."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The model that works for an agent, the window that its steps are measured by, and its price if known."""

    model: MemoryModel
    window: int
    price: Price | None = None


class Served(MemoryModel, Protocol):
    """A model of a provider that has several."""

    def serves(self) -> bool:
        """Whether the provider has this model. Raises `ModelUnavailable` where it does not say."""
        ...


class Models(Protocol):
    def name_for(self, kind: Kind, agent: AgentModel) -> str:
        """The name of the model that works for the agent."""
        ...

    def chosen(self, kind: Kind, agent: AgentModel) -> Chosen:
        """That model, and the window that governs. Raises `ModelUnavailable` where the provider must be asked."""
        ...


class OneModel:
    """The same model for every agent and kind of job."""

    def __init__(self, model: MemoryModel, windows: WindowSettings | None = None) -> None:
        self._model = model
        self._windows = windows or WindowSettings()

    def name_for(self, kind: Kind, agent: AgentModel) -> str:
        return self._model.name

    def chosen(self, kind: Kind, agent: AgentModel) -> Chosen:
        window = _governing(self._model, agent, self._windows, lambda name: None)
        return Chosen(self._model, window, price_of(self._model.name, PRICES))


@dataclass
class ModelShelf:
    """Models by name, as the operator's choice and each agent's latest run want them.

    `make` makes a model that the operator named. `make_served` makes one of the default's provider under any
    name, as events bring them, and nothing else; None where the provider has only the default. Safe to use
    from many threads.
    """

    choice: WorkingModels
    make: Callable[[str], MemoryModel]
    make_served: Callable[[str], Served] | None = None
    windows: WindowSettings = field(default_factory=WindowSettings)
    prices: Mapping[str, Price] = field(default_factory=lambda: PRICES)
    _made: dict[str, MemoryModel] = field(default_factory=dict, repr=False)
    _served: dict[str, Served] = field(default_factory=dict, repr=False)
    _making: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def name_for(self, kind: Kind, agent: AgentModel) -> str:
        return self._working(kind, agent).name

    def chosen(self, kind: Kind, agent: AgentModel) -> Chosen:
        model = self._working(kind, agent)
        window = _governing(model, agent, self.windows, self._reported)
        return Chosen(model, window, price_of(model.name, self.prices))

    def _working(self, kind: Kind, agent: AgentModel) -> MemoryModel:
        name = working_name(kind, self.choice, agent, self._serves)
        return self._operators(name) if self._is_operators(name) else self._providers(name)

    def _is_operators(self, name: str) -> bool:
        return name == self.choice.default or name in self.choice.by_kind.values()

    def _operators(self, name: str) -> MemoryModel:
        """Those who ask at once get the same one: it may be large."""
        with self._making:
            if name not in self._made:
                self._made[name] = self.make(name)
            return self._made[name]

    def _providers(self, name: str) -> Served:
        assert self.make_served is not None  # noqa: S101 - `_serves` was true
        with self._making:
            if name not in self._served:
                if len(self._served) >= _MOST_MODELS:
                    self._served.clear()
                self._served[name] = self.make_served(name)
            return self._served[name]

    def _serves(self, name: str) -> bool:
        """A provider that does not answer is not waited for: the default works meanwhile."""
        if self.make_served is None:
            return False
        try:
            return self._providers(name).serves()
        except ModelUnavailable as error:
            log.info("the provider does not say whether it has a model", model=name, error=str(error))
            return False

    def _reported(self, name: str) -> object:
        if self._is_operators(name):
            return self._operators(name).window
        return self._providers(name).window if self._serves(name) else None


def _governing(
    model: MemoryModel, agent: AgentModel, settings: WindowSettings, reported: Callable[[str], object]
) -> int:
    """The smaller window of the model that works and the agent's own. No run named one: the first governs."""
    same = not agent.name or agent.name == model.name
    working = _window(
        model.name, agent.window if agent.name == model.name else None, settings, lambda: model.window
    )
    if same and (agent.name or agent.window is None):
        return working.tokens
    own = _window(agent.name, agent.window, settings, lambda: reported(agent.name) if agent.name else None)
    return governing(working, own)


def _window(
    name: str | None, told: object, settings: WindowSettings, reported: Callable[[], object]
) -> Window:
    """Asks the provider only where neither settings nor the event say how large a window is."""
    needed = settings.of(name) is None and plausible(told) is None
    return resolve_window(name, reported() if needed else None, told=told, settings=settings)
