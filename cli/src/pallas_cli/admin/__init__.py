"""What the commands of an admin do, through the admin API of team-lifecycle."""
