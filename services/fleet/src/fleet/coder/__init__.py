"""Coder, by its REST API: workspaces, templates, builds and what agents report."""
