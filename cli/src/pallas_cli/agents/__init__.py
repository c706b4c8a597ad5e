"""Agents: a check of team folders, the catalogue, and the autoscaler of workers."""
