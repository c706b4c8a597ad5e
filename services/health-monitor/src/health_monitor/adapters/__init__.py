"""The monitor's adapters: probes, team folders, buckets, the turn queue."""
