"""Text as the memory holds it, and the words that say something in it."""
