"""Simulations: what cannot be had here (a cluster) is played, and what it acts on is real."""
