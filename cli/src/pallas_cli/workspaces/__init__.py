"""What the commands of the console do: workspaces, registered instances, and the JWTs of their teams."""
