"""Builds the service."""
