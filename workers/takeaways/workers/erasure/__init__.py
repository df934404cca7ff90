"""Forgetting agents, rooms, persons and messages, everywhere."""
