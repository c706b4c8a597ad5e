"""What Pallas is measured against. Each module is a process of its own: `python -m tests.bench.peers.NAME PORT`."""
