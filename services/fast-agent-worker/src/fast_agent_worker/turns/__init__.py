"""One turn of a fast-agent agent: its agents are made for it, run once, and disposed."""
