"""The demo server with tracing: `python -m tests.integration.traces.traced_demo PORT`."""

import os
import sys

from pallas_demo.__main__ import main
from pallas_runtime.telemetry import start_tracing

if __name__ == "__main__":
    port = sys.argv[-1]
    stop = start_tracing("demo-tools", f"demo-{port}", os.environ)
    sys.argv[1:] = ["--port", port]
    try:
        main()
    finally:
        stop()
