"""Changes of workspaces, instances and attachments: committed with their events and hooks."""
