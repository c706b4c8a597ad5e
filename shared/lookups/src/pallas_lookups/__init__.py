"""Who may read what, as Redis keeps it: written before the truth changes, never older than it."""
