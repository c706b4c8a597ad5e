"""Simulations: the cluster is simulated, and the services it acts on are real."""
