"""How a process connects to the broker: the servers, its user, and the certificates that it trusts.

A seed is the private half of an nkey. Its public half is the user's name in the broker's configuration and the prefix
of its inboxes, so no service can read another's answers.
"""

import secrets
import ssl
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import nkeys
from pydantic import SecretStr

from pallas_contracts.errors import Rejected


class AccessSettings(Protocol):
    """The settings of a process for its connection to the broker."""

    @property
    def nats_url(self) -> SecretStr:
        """The addresses of the servers, separated by commas."""
        ...

    @property
    def nats_seed(self) -> SecretStr | None:
        """The seed of the user's nkey; None: no user."""
        ...

    @property
    def nats_ca(self) -> str | None:
        """Certificates (PEM), one of which must have signed the broker's; None: no TLS."""
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """How to connect. Without `seed` the process has no user. With `ca`, the connection begins with TLS."""

    url: str = field(repr=False)
    seed: SecretStr | None = None
    ca: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, settings: AccessSettings) -> Self:
        """The access that the settings of a process describe."""
        return cls(settings.nats_url.get_secret_value(), settings.nats_seed, settings.nats_ca)

    def options(self, service: str) -> dict[str, Any]:
        """The options of nats-py for the connection of `service`.

        Raises:
            Rejected: the seed or the certificates cannot be read (`bad_settings`).
        """
        servers = [server.strip() for server in self.url.split(",")]
        options: dict[str, Any] = {"servers": servers, "inbox_prefix": f"_INBOX.{service}"}
        if self.seed is not None:
            seed = self.seed.get_secret_value()
            options |= {"nkeys_seed_str": seed, "inbox_prefix": inbox_prefix(public_key(seed))}
        if self.ca is not None:
            options |= {"tls": _trusting(self.ca), "tls_handshake_first": True}
        return options


def inbox_prefix(user: str) -> str:
    """The prefix of the inboxes of the user with that public key."""
    return f"_INBOX.{user}"


def make_seed() -> str:
    """Make the seed of a new user."""
    return nkeys.encode_seed(secrets.token_bytes(32), nkeys.PREFIX_BYTE_USER).decode()


def public_key(seed: str) -> str:
    """The public half of a seed.

    Raises:
        Rejected: it is not the seed of a user (`bad_settings`).
    """
    try:
        public = nkeys.from_seed(bytearray(seed.strip().encode())).public_key.decode()
    except (nkeys.NkeysError, ValueError):
        # Not from the error: its traceback may show the seed.
        raise Rejected("the seed for the broker cannot be read", code="bad_settings") from None
    if not public.startswith("U"):
        raise Rejected("the seed for the broker is not the seed of a user", code="bad_settings")
    return public


def _trusting(certificates: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=certificates)
    except ssl.SSLError as error:
        raise Rejected("the certificates for the broker cannot be read", code="bad_settings") from error
