"""What people and services show and what is kept of it: HTTP Basic accounts, and keys and hashes as settings."""
