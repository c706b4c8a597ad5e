"""The health of each agent, from its dependencies, its workers and its waiting turns."""
