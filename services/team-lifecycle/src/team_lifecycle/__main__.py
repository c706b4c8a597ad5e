"""`python -m team_lifecycle`"""

from pallas_runtime.start import start

if __name__ == "__main__":
    start("team_lifecycle")
