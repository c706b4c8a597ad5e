"""What the service reaches out to."""
