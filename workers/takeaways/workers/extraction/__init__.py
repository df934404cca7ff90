"""Extraction: read what is new in an agent's rooms; each yields a session summary and candidates.

*When*: after every fifth successful run, or when somebody asks. *What*: segment by segment within half the
model's window, oldest first, each committed under the lease. *How it can end*: `remembered`,
`nothing_to_remember`, or set aside: see `outcomes`.
"""
