"""The fleet: coding agents, as tools of the agent `fleet/fleet`."""
