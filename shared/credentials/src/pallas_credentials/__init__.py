"""HTTP Basic accounts, and settings for keys and password hashes."""
