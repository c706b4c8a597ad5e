"""The HTTP API: who sends a request, its fields, the routes and the answers for errors."""
