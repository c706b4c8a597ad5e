"""Starts the service: `python -m workspaces`.

`--accept-lost-jwts` is the same as `PALLAS_ACCEPT_LOST_JWTS=true`.
"""

import os
import sys

from pallas_runtime.importing import importing

with importing():
    from pallas_runtime.run import run
    from workspaces.app import build
    from workspaces.settings import WorkspacesSettings


def main() -> None:
    """Run until SIGTERM."""
    if "--accept-lost-jwts" in sys.argv[1:]:
        os.environ["PALLAS_ACCEPT_LOST_JWTS"] = "true"
    run("workspaces", WorkspacesSettings, build)


if __name__ == "__main__":
    main()
