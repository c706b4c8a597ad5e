"""What the service hears: HTTP, and the question for look-ups."""
