"""A process of a service, `NAME`, or `NAME unprotected`.

Nothing that is installed can be told to do without.
"""

import sys
from functools import partial

from auth_resolver.app import build as build_resolver
from auth_resolver.settings import AuthResolverSettings
from pallas_runtime.run import run
from team_lifecycle.app import build as build_lifecycle
from team_lifecycle.settings import TeamLifecycleSettings


def main() -> None:
    """Run until SIGTERM."""
    name, protect = sys.argv[1], "unprotected" not in sys.argv[2:]
    if name == "auth-resolver":
        run(name, AuthResolverSettings, partial(build_resolver, protect=protect))
    run(name, TeamLifecycleSettings, partial(build_lifecycle, protect=protect))


if __name__ == "__main__":
    main()
