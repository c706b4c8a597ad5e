"""The demo's data agents, run as `python -m pallas_demo.data_agents URL`: all in one process, on one connection."""
