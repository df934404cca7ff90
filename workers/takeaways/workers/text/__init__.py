"""Text as the memory holds it."""
