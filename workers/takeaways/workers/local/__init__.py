"""A whole server on one machine."""
