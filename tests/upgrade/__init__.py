"""Upgrades from the release before this one, and back: contracts, databases, and services of both side by side."""
