"""The transactional outbox: changes are committed to Postgres with their events, which are then sent to the broker."""
