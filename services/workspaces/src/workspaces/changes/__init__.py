"""Changes of workspaces, instances and attachments: committed with their events and the teams that they wake."""
