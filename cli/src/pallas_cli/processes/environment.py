"""Which variables of its own environment `pallas up` hands on to its processes.

Nobody inherits a secret: a process is told the ones that it needs, so team code in a worker finds no others.
"""

import os
import re
from collections.abc import Callable

_SECRETS = re.compile(
    r"PALLAS_(?:ADMIN_PASSWORD|SERVICE_PASSWORD|ADMIN_PASSWORD_HASH|SERVICE_PASSWORD_HASH|FERNET_KEYS|LOG_KEY"
    r"|REQUEST_STATE_KEY|REDIS_URL|POSTGRES_URL|TOKEN)(?:_FILE)?"
)
_OF_ANY_PROGRAM = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|LD_\w+|PYTHON\w+|VIRTUAL_ENV|SSL_CERT_\w+"
    r"|(?:HTTP|HTTPS|ALL|NO)_PROXY",
    re.IGNORECASE,
)
_SETTINGS = re.compile(r"(?:PALLAS|OTEL)_\w+")


def of_a_server() -> dict[str, str]:
    """What any program needs."""
    return _kept(lambda name: _OF_ANY_PROGRAM.fullmatch(name))


def of_a_service() -> dict[str, str]:
    """The same, and settings."""
    return _kept(lambda name: _OF_ANY_PROGRAM.fullmatch(name) or _SETTINGS.fullmatch(name))


def of_team_folders() -> dict[str, str]:
    """Everything but secrets of the platform: a team folder may name any variable."""
    return _kept(lambda _: True)


def _kept(wanted: Callable[[str], object]) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if wanted(name) and not _SECRETS.fullmatch(name)}
