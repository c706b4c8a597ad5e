"""What is decided."""
