"""What `deploy/` says, as the tests read it."""
