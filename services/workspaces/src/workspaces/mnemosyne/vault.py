"""Encrypts what is secret in the database: team JWTs, and the tokens that are sent to agents.

The key is `MNEMOSYNE_FERNET_KEY` if there is one (several are possible: the first encrypts), else it is derived from
`SECRET_KEY` (auth contract, section 13.3). With both, what `SECRET_KEY` has encrypted can still be opened.
"""

import base64
from collections.abc import Sequence
from typing import Protocol, Self

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import SecretStr

from pallas_contracts.errors import PallasError, Rejected
from pallas_credentials.settings import keys_of

SHORTEST_SECRET = 32
_INFO = b"pallas team jwt"


class HasKeys(Protocol):
    """The settings that keys are made of."""

    @property
    def fernet_key(self) -> SecretStr | None:
        """Fernet keys, separated by commas."""
        ...

    @property
    def secret_key(self) -> SecretStr | None:
        """A text that a key is derived from."""
        ...


class Vault:
    """Encrypts with the first key, decrypts with all."""

    def __init__(self, keys: Sequence[str | bytes]) -> None:
        self._first = Fernet(keys[0])
        self._all = MultiFernet([Fernet(key) for key in keys])

    @classmethod
    def of(cls, settings: HasKeys) -> Self:
        """The vault of a service.

        Raises:
            Rejected: there is neither key, or `SECRET_KEY` is too short.
        """
        keys: list[str | bytes] = [*keys_of(settings.fernet_key)]
        secret = settings.secret_key.get_secret_value() if settings.secret_key is not None else ""
        if len(secret) >= SHORTEST_SECRET:
            keys.append(_derived(secret))
        if keys:
            return cls(keys)
        raise Rejected(
            "MNEMOSYNE_FERNET_KEY, or SECRET_KEY with at least 32 characters, is required: it encrypts team JWTs",
            code="bad_settings",
        )

    def seal(self, text: str) -> str:
        """Encrypt."""
        return self._first.encrypt(text.encode()).decode()

    def open(self, sealed: str) -> str:
        """Decrypt.

        Raises:
            PallasError: no key opens it (`sealed_by_another`).
        """
        try:
            return self._all.decrypt(sealed).decode()
        except InvalidToken as error:
            raise PallasError(
                "a secret in the database was encrypted with a key that this service does not have",
                code="sealed_by_another",
            ) from error

    def reseal(self, sealed: str) -> str:
        """What was encrypted, encrypted with the first key; unchanged if it is already. Raises what `open` does."""
        try:
            self._first.decrypt(sealed)
        except InvalidToken:
            return self.seal(self.open(sealed))
        return sealed


def _derived(secret: str) -> bytes:
    key = HKDF(SHA256(), length=32, salt=None, info=_INFO).derive(secret.encode())
    return base64.urlsafe_b64encode(key)
