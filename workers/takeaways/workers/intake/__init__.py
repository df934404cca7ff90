"""Intake: from the streams of events into the database, each event once, in one transaction a batch.

Public: `transaction.take_in` (a batch of entries), `entries.read_entry` and `entries.Entry` (one entry),
`taken.Taken` and `taken.TakenIn` (what became of them), `reader.StreamReader` (a consumer of one stream),
`process.IntakeProcess` (the process that `takeaways worker` supervises).
"""
