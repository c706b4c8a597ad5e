"""A stand-in for a service: answers `/readyz`, ends on SIGTERM, and misbehaves on request.

Usage: stand_in.py PORT [refuse | deaf | slow | orphan]. `refuse` ends with code 2 at once, `deaf` ignores SIGTERM,
`slow` ends 4 s behind it, `orphan` leaves a process in a session of its own.
"""

import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer


class Ready(BaseHTTPRequestHandler):
    """Answers every GET with 200."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()


def leave(number: int, frame: object) -> None:
    """End on a signal as a service does."""
    sys.exit(0)


def leave_slowly(number: int, frame: object) -> None:
    """End slowly, as a server with a slow disk does."""
    time.sleep(4)
    sys.exit(0)


def main(port: int, behaviour: str) -> None:
    """Serve until a signal."""
    if behaviour == "refuse":
        print("stand-in: PALLAS_THING: is wrong", file=sys.stderr)
        sys.exit(2)
    signal.signal(signal.SIGTERM, {"deaf": signal.SIG_IGN, "slow": leave_slowly}.get(behaviour, leave))
    if behaviour == "orphan":
        orphan = subprocess.Popen(["sleep", "600"], start_new_session=True)
        print(f"orphan {orphan.pid}", flush=True)
    HTTPServer(("127.0.0.1", port), Ready).serve_forever()


main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
