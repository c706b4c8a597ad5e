"""Executions: turns whose calls are turns of their own."""
