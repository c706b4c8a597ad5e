"""Starts the service: `python -m auth_resolver`."""

from pallas_runtime.importing import importing

with importing():
    from auth_resolver.app import build
    from auth_resolver.settings import AuthResolverSettings
    from pallas_runtime.run import run


def main() -> None:
    """Run until SIGTERM."""
    run("auth-resolver", AuthResolverSettings, build)


if __name__ == "__main__":
    main()
