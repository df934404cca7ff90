"""Models for workers in processes of their own, whose troubles the messages themselves ask for."""

from __future__ import annotations

from takeaways.schemas.errors import ModelOverloaded, ModelRefused
from takeaways.workers.models import Answered, ExtractionAnswer
from takeaways.workers.models.requests import ExtractionRequest
from takeaways.workers.models.seam import Call
from takeaways.workers.testing import ScriptedModel

REFUSE = "please refuse this"
OVERLOAD = "please be overloaded"
BREAK = "please break"


class Troubled(ScriptedModel):
    """`ScriptedModel`, but a message with one of the phrases above ends its extraction badly."""

    def extract(self, request: ExtractionRequest, call: Call) -> Answered[ExtractionAnswer]:
        said = repr(request)
        if REFUSE in said:
            raise ModelRefused("policy")
        if OVERLOAD in said:
            raise ModelOverloaded("the model is overloaded", 40.0, model=self.name)
        if BREAK in said:
            raise ZeroDivisionError("what somebody said")
        return super().extract(request, call)


def slow(window: int = 200_000) -> Troubled:
    """One that takes so long that its phases can be seen."""
    return Troubled(delay_seconds=4.0, window=window)
