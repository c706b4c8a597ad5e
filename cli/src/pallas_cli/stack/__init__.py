"""A whole Pallas on one machine: servers and services as child processes, started, watched, restarted and stopped."""
