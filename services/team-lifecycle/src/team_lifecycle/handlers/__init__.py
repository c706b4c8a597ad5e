"""What is decided: each handler changes rows within a change's transaction and says what it came to."""
