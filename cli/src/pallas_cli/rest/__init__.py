"""Commands that ask REST APIs, declared in tables."""
