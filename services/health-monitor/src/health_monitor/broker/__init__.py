"""What the monitor reads from the broker, and what it publishes there."""
