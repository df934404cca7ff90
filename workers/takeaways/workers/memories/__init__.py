"""What people ask of a memory: its history, an edit by hand, a copy in one file."""
