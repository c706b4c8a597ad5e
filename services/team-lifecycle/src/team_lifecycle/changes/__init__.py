"""Changes of who may read what: committed with their invalidations, and then sent to the broker as events."""
