"""Runs a service whose cache of look-ups is unprotected: `python -m tests.integration.stale.service NAME`."""

import sys

from tests.integration.stale.unprotected import unprotected

import auth_resolver.app
import team_lifecycle.app
from pallas_runtime.run import run


def main() -> None:
    """Run until SIGTERM."""
    with unprotected():
        if sys.argv[1] == "auth-resolver":
            run(auth_resolver.app.SERVICE)
        run(team_lifecycle.app.SERVICE)


if __name__ == "__main__":
    main()
