"""How the monitor reaches out."""
