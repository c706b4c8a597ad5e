"""Paths that several routes share."""

API = "/api/v1"
LOGIN = f"{API}/login"
