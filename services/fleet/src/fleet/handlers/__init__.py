"""The tools of the agent: each decides, and returns what the contract says."""
