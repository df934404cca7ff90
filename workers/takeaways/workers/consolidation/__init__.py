"""Consolidation: merge waiting candidates into the agent's one memory, as edits of its sections.

*When*: the agent was idle for six hours, a room was compacted, many candidates wait, or somebody asks.
*What*: batch by batch, oldest said first, each a whole new revision committed under the lease. *How it can
end*: `remembered`, `nothing_to_remember` (no model call), `refused_edits` or set aside: see `outcomes`.
"""
