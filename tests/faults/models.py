"""Models for worker processes under test, as `TAKEAWAYS_MODEL` names them."""

from __future__ import annotations

import os
import signal
from typing import Final

from takeaways.schemas.errors import CallAborted
from takeaways.workers.models import Answered, Call, ExtractionAnswer
from takeaways.workers.models.offline import OfflineModel
from takeaways.workers.models.requests import ExtractionRequest
from takeaways.workers.testing import ScriptedModel

DELAY_SECONDS: Final = 0.15
DEADLY: Final = "This sentence ends whoever reads it."


def patient() -> ScriptedModel:
    """The additive model, with calls that take long enough to be interrupted."""
    return ScriptedModel(delay_seconds=DELAY_SECONDS)


def slow() -> ScriptedModel:
    """Calls that last longer than any lease of a test."""
    return ScriptedModel(delay_seconds=5.0)


class Mortal(ScriptedModel):
    """Dies of one sentence, as a worker may of a batch that exhausts its memory."""

    def extract(self, request: ExtractionRequest, call: Call) -> Answered[ExtractionAnswer]:
        if DEADLY in repr(request):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().extract(request, call)


def mortal() -> ScriptedModel:
    return Mortal()


class Unhurried(OfflineModel):
    """The model that ships, with extractions that take long enough to be interrupted."""

    def extract(self, request: ExtractionRequest, call: Call) -> Answered[ExtractionAnswer]:
        if call.abort.wait(2 * DELAY_SECONDS):
            raise CallAborted("the call was called off")
        return super().extract(request, call)


def unhurried() -> OfflineModel:
    return Unhurried()
