"""`python -m registry`"""

from pallas_runtime.start import start

if __name__ == "__main__":
    start("registry")
