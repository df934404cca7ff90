"""What sentence embeddings add: lasting things said without any of the words that rules know.

Two lists of sentences in people's own words, none of them among those that the embeddings compare with. Counted is
how many of the lasting ones become lessons, and how many of the passing ones wrongly do.

    python -m benchmarks.wordings
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from takeaways.schemas.events import Author
from takeaways.workers.models.offline import OfflineModel
from takeaways.workers.models.requests import Excerpt, ExtractionRequest, RoomPart, Source, Span
from takeaways.workers.models.seam import Call

LASTING: Final = (
    "No invoice without a purchase order number on it.",
    "Nobody outside the team gets the raw figures.",
    "Refunds above fifty euros go past Miriam first.",
    "Two people look at every change of the price list.",
    "Friday afternoon is off the table for releases.",
    "Customers in Japan get their letters in Japanese.",
    "Numbers with a comma, dates with dots, that is how our readers know it.",
    "The short form of the report is enough for me.",
    "Mondays are bad for me, the later in the week the better.",
    "Plain text suits me better than tables.",
    "Long introductions put me off.",
    "The warehouse in Gdańsk ships everything north of Hamburg.",
    "Petra signs the contracts while Jonas is away.",
    "The nightly export chokes on files above two gigabytes.",
    "Without the vpn the registry cannot be reached from the office.",
    "It was the proxy that swallowed the headers.",
    "Restarting the scheduler cleared the queue.",
    "We settled for the smaller plan after all.",
    "Our books close on the tenth working day.",
    "The Lisbon office opens an hour after ours.",
)
PASSING: Final = (
    "The second page looks better now.",
    "That took longer than I thought.",
    "Let me read through it once more.",
    "A moment please, the phone rings.",
    "Just the first three rows for a start.",
    "Looks good to me.",
    "The build is at sixty percent.",
    "Somebody is at the door.",
    "I am back at my desk.",
    "Thanks, you saved my day.",
    "Show the totals for May next to those for June.",
    "Make the headline a little shorter here.",
    "This one has a typo in the third line.",
    "Hm, interesting.",
    "The coffee machine is broken again.",
    "I will have a look after lunch.",
    "Could be worse.",
    "Hello from the train, the connection is poor.",
    "One more try with the other file.",
    "That is all for today.",
)


@dataclass(frozen=True, slots=True)
class Heard:
    """How many of the lasting sentences were found, and how many of the passing ones taken for lasting."""

    found: int
    mistaken: int


def heard(model: OfflineModel) -> Heard:
    """Each sentence is a message of one person in a room with an agent."""
    return Heard(_lessons(model, LASTING), _lessons(model, PASSING))


def _lessons(model: OfflineModel, sentences: tuple[str, ...]) -> int:
    dana, agent = Author(id="dana", name="Dana", kind="person"), Author(id="agent", kind="agent")
    said = [(dana, sentence) for sentence in sentences]
    excerpts = tuple(
        Excerpt(f"m{number}", f"m{number}", "user", author, 0, 0, (Span(Source.SPOKEN, sentence),))
        for number, (author, sentence) in enumerate([*said, (agent, "Understood.")])
    )
    request = ExtractionRequest((RoomPart("r1", "room-1", "", "", excerpts),))
    candidates = model.extract(request, Call()).answer.rooms[0].candidates
    return len({quote.message for candidate in candidates for quote in candidate.evidence})


def main() -> None:
    for model in (OfflineModel(), OfflineModel(embeddings=True)):
        counted = heard(model)
        print(
            f"{model.name}: {counted.found} of {len(LASTING)} lasting, {counted.mistaken} of {len(PASSING)} passing"
        )


if __name__ == "__main__":
    main()
