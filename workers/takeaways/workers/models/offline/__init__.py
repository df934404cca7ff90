"""A memory model of rules: it finds the sentences that state something lasting, and needs no network."""

from takeaways.workers.models.offline.model import OfflineModel

__all__ = ["OfflineModel"]
