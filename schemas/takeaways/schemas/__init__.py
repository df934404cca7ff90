"""What every part agrees on: events, transcripts, memories, errors, names, tables."""
