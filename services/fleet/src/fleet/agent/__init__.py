"""The agents of the fleet: `fleet/fleet`, whose tools are the contract's, and `fleet/tasks`, whose turns are tasks."""
