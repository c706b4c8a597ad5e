"""Registries of Pallas instances: their addresses, their documents, and what is stored of them."""
