"""The settings: what can be set, where a value comes from, and what is wrong with it."""

from takeaways.workers.settings.variables import PREFIX, Settings, address, unknown_variables

__all__ = ["PREFIX", "Settings", "address", "unknown_variables"]
