"""What Coder and the terminals of agents say now, put together with what the fleet knows itself."""
