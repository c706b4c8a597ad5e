"""A new team folder that runs."""
