"""What the service can be told."""

from pallas_runtime.settings import Settings


class LibrarySearchSettings(Settings):
    """Settings of a library-search."""
