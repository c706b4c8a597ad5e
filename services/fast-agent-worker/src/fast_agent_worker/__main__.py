"""`python -m fast_agent_worker`"""

from pallas_runtime.start import start

if __name__ == "__main__":
    start("fast_agent_worker")
