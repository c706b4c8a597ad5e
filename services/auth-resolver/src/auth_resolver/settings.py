"""What the service can be told."""

from pallas_runtime.settings import Settings


class AuthResolverSettings(Settings):
    """Settings of a auth-resolver."""
