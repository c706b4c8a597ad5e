"""What a request decides, and what it answers."""
