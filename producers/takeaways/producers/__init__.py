"""Publish what happens in an agent's conversations: one call, one entry of a Redis stream.

`Producer` sends, `AsyncProducer` does the same in asyncio, `Composer` only makes the events, for an outbox
or for `publish_many`. `takeaways.producers.testing` has the stand-ins for tests of services that publish.
"""

from __future__ import annotations

from takeaways.producers.entries import Limits
from takeaways.producers.producer import AsyncProducer, Producer
from takeaways.producers.publisher import Composer, Publisher
from takeaways.schemas.errors import BadInput, Misconfigured, PublishFailed
from takeaways.schemas.events import Author, Conversation, Event, Message, RoomRef

__all__ = [
    "AsyncProducer",
    "Author",
    "BadInput",
    "Composer",
    "Conversation",
    "Event",
    "Limits",
    "Message",
    "Misconfigured",
    "Producer",
    "PublishFailed",
    "Publisher",
    "RoomRef",
]
