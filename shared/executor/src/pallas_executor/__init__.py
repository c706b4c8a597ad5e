"""Executes turns: takes, claims, runs, concludes and settles them."""
