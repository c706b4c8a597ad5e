"""Changes of the truth: committed with their invalidations, and then sent to the broker as events."""
