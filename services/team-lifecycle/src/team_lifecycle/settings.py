"""What the service can be told."""

from pallas_runtime.settings import Settings


class TeamLifecycleSettings(Settings):
    """Settings of a team-lifecycle."""
