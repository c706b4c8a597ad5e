"""`python -m health_monitor`"""

from pallas_runtime.start import start

if __name__ == "__main__":
    start("health_monitor")
