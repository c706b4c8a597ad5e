"""Whom a bearer belongs to: its form, its signature, its claims, and the rows by which it is judged."""
