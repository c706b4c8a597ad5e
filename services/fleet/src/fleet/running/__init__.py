"""Tasks: each is a turn of the agent `fleet/tasks`, which types its prompt once and watches until the agent is done."""
