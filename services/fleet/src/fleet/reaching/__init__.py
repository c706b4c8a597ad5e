"""How Coder and what is behind it are reached: one HTTP client, bounded, which shows the token to Coder alone."""
