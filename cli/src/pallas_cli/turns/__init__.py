"""Turns, read from the turn log: listed, shown, compared, replayed, cancelled and forgotten."""
