"""Child processes: started, probed, restarted and stopped."""
