"""A team folder as fast-agent has it: the shadow that it runs in, its modules and cards, its connections."""
