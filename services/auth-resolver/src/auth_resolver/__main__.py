"""`python -m auth_resolver`"""

from pallas_runtime.start import start

if __name__ == "__main__":
    start("auth_resolver")
