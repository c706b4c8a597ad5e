"""`python -m data_pool`"""

from pallas_runtime.start import start

if __name__ == "__main__":
    start("data_pool")
