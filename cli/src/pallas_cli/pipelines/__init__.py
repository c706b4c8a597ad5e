"""Pipelines, at the HTTP API of the pipelines service."""
