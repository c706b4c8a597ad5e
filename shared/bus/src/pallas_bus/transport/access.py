"""How a process reaches the broker: where it is, which user it is there, and whose certificate the broker must show.

A seed is the private half of an nkey. Its public half names the user in the broker's configuration, and the inboxes on
which the user hears answers, so no service can listen to another's.
"""

import secrets
import ssl
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import nkeys
from pydantic import SecretStr

from pallas_contracts.errors import Rejected


class AccessSettings(Protocol):
    """What of a process's settings is about the broker."""

    @property
    def nats_url(self) -> SecretStr:
        """The servers, separated by commas."""
        ...

    @property
    def nats_seed(self) -> SecretStr | None:
        """The seed of its user's nkey."""
        ...

    @property
    def nats_ca(self) -> str | None:
        """The certificates, PEM, of which one must have signed the broker's."""
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """Without `seed` the process is nobody in particular. With `ca`, nothing is said before TLS is."""

    url: str = field(repr=False)
    seed: SecretStr | None = None
    ca: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, settings: AccessSettings) -> Self:
        """What the settings of a process say."""
        return cls(settings.nats_url.get_secret_value(), settings.nats_seed, settings.nats_ca)

    def options(self, service: str) -> dict[str, Any]:
        """What the connection of `service` is made with.

        Raises:
            Rejected: the seed is none, or the certificates are none.
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
    """Where the user with that public key hears answers."""
    return f"_INBOX.{user}"


def make_seed() -> str:
    """The seed of a new user."""
    return nkeys.encode_seed(secrets.token_bytes(32), nkeys.PREFIX_BYTE_USER).decode()


def public_key(seed: str) -> str:
    """The public half of a seed.

    Raises:
        Rejected: it is no seed of a user.
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
