"""`python -m agent_gateway`"""

from pallas_runtime.start import start

if __name__ == "__main__":
    start("agent_gateway")
