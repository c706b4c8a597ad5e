"""HTTP: the REST API and the console."""
