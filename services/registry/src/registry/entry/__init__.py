"""What the registry hears."""
