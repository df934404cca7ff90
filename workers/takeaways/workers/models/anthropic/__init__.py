"""Claude as the memory's model, over the Messages API.

*What*: `AnthropicModel` renders a request, sends it, and reads the answer. `body` is what is sent, `connection`
sends it, `reply` and `endings` are what came back, `facts` what the provider says of a model. *How it can end*:
see `models.seam`.
"""

from __future__ import annotations

from takeaways.workers.models.anthropic.connection import (
    Connection,
    close_shared_connection,
    shared_connection,
)
from takeaways.workers.models.anthropic.model import AnthropicModel

__all__ = ["AnthropicModel", "Connection", "close_shared_connection", "shared_connection"]
