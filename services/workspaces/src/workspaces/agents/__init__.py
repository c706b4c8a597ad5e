"""The agents of registered instances: where they are, how they are, and what they look like."""
