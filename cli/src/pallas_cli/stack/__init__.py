"""The whole platform on one machine: servers and services as child processes."""
