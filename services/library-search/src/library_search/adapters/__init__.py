"""What is reached: Postgres and the broker."""
