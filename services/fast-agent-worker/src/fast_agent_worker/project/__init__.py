"""A team folder as fast-agent has it: its settings, modules, cards and connections."""
