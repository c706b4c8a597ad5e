"""The engine: how a call becomes a turn, and how a turn is executed and followed to its end."""
