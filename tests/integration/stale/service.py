"""Runs a service whose cache of look-ups is unprotected: `python -m tests.integration.stale.service NAME`."""

import sys

from tests.integration.stale.unprotected import unprotected

from auth_resolver.__main__ import main as run_resolver
from team_lifecycle.__main__ import main as run_lifecycle


def main() -> None:
    """Run until SIGTERM."""
    with unprotected():
        {"auth-resolver": run_resolver, "team-lifecycle": run_lifecycle}[sys.argv[1]]()


if __name__ == "__main__":
    main()
