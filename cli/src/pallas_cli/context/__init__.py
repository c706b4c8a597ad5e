"""Contexts: changed, listed, and shown with the source of each value."""
