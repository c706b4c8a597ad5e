"""What processes that serve HTTP share: the listener, bodies, requests under way, accepted hosts, error answers."""
