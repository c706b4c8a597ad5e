"""The variables of its environment that `pallas up` passes to its processes.

No process inherits a secret. Each process is given only those that it needs, so team code in a worker finds no others.
"""

import os
import re
from collections.abc import Callable

_SECRETS = re.compile(
    r"PALLAS_(?:ADMIN_PASSWORD|SERVICE_PASSWORD|ADMIN_PASSWORD_HASH|SERVICE_PASSWORD_HASH|FERNET_KEYS|LOG_KEY"
    r"|BROKER_KEY|REQUEST_STATE_KEY|CONSTELLATION_API_KEYS|REDIS_URL|POSTGRES_URL|TOKEN|FERNET_KEY|SECRET_KEY|TEAMS_PASSWORD"
    r"|AGENT_TOKEN|CODER_TOKEN)(?:_FILE)?"
    r"|(?:MNEMOSYNE_FERNET_KEY|SECRET_KEY)(?:_FILE)?"
)
_OF_ANY_PROGRAM = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|LD_\w+|PYTHON\w+|VIRTUAL_ENV|SSL_CERT_\w+"
    r"|(?:HTTP|HTTPS|ALL|NO)_PROXY",
    re.IGNORECASE,
)
_SETTINGS = re.compile(r"(?:PALLAS|OTEL)_\w+")


def server_environment() -> dict[str, str]:
    """The variables that any program needs."""
    return _kept(lambda name: _OF_ANY_PROGRAM.fullmatch(name))


def service_environment() -> dict[str, str]:
    """The variables that any program needs, and settings."""
    return _kept(lambda name: _OF_ANY_PROGRAM.fullmatch(name) or _SETTINGS.fullmatch(name))


def team_environment() -> dict[str, str]:
    """All variables except secrets of the platform, because a team folder may name any variable."""
    return _kept(lambda _: True)


def _kept(wanted: Callable[[str], object]) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if wanted(name) and not _SECRETS.fullmatch(name)}
