"""Worker processes: the tasks and their broker, hints, the supervisor, and how a pool drains."""
