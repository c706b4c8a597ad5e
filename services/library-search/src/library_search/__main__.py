"""`python -m library_search`"""

from pallas_runtime.start import start

if __name__ == "__main__":
    start("library_search")
