"""Starts the health monitor: `python -m health_monitor`."""

from pallas_runtime.importing import importing

with importing():
    from health_monitor.app import build
    from health_monitor.settings import MonitorSettings
    from pallas_runtime.run import run


def main() -> None:
    """Run until SIGTERM."""
    run("health-monitor", MonitorSettings, build)


if __name__ == "__main__":
    main()
