"""`python -m workspaces`"""

from pallas_runtime.start import start

if __name__ == "__main__":
    start("workspaces")
