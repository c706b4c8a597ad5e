"""How far one log goes, and what many agents cost."""
