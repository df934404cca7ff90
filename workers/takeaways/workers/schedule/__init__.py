"""When something is due: the policy, an agent's state, and `decide`, which everybody asks."""
