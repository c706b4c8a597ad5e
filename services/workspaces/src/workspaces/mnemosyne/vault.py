"""Encrypts what is secret in the database: team JWTs, and the tokens that are sent to agents.

The key is `MNEMOSYNE_FERNET_KEY` if there is one (several are possible: the first encrypts), else it is derived from
`SECRET_KEY` (auth contract, section 13.3). With both, what `SECRET_KEY` has encrypted can still be opened.

At the start all that is encrypted is opened, and encrypted with the first key. So a Fernet key is replaced by putting
the new one in front, starting the service, and removing the old one.
"""

import base64
import logging
from collections.abc import Sequence
from typing import Protocol, Self

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import SecretStr
from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_contracts.errors import PallasError, Rejected
from pallas_credentials.settings import keys_of
from pallas_postgres.engine import writing
from workspaces.tables import PallasInstance

log = logging.getLogger(__name__)

SHORTEST_SECRET = 32
LOST = "its JWT was lost with the key that it was encrypted with"
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


async def check_sealed_rows(engine: AsyncEngine, vault: Vault, *, accept_lost: bool) -> None:
    """Check all rows. With `accept_lost`, what cannot be opened is given up: teams get new JWTs by the reconciler.

    Raises:
        Rejected: rows cannot be opened, and this is not accepted.
    """
    jwts = tokens = 0
    sealed = or_(PallasInstance.team_jwt_encrypted.is_not(None), PallasInstance.agent_token_encrypted.is_not(None))
    rows = select(PallasInstance).where(sealed).order_by(PallasInstance.id)
    async with writing(engine) as session:
        for one in await session.scalars(rows.with_for_update()):
            if not _reseal(vault, one, "team_jwt_encrypted"):
                one.pallas_team_mnemosyne_status, one.status_reason = "failed", LOST
                jwts += 1
            if not _reseal(vault, one, "agent_token_encrypted"):
                tokens += 1
        if jwts or tokens:
            lost = f"{jwts} team JWTs and {tokens} agent tokens"
            if not accept_lost:
                raise Rejected(
                    f"{lost} cannot be opened: they were encrypted with a key that is neither in MNEMOSYNE_FERNET_KEY "
                    "nor made of SECRET_KEY. Give the old key, too, or give them up with --accept-lost-jwts",
                    code="lost_jwts",
                )
            log.warning("giving up secrets that cannot be opened", extra={"lost": lost})


def _reseal(vault: Vault, one: PallasInstance, column: str) -> bool:
    """Encrypt a column with the first key. False: no key opens it, and it is removed."""
    sealed: str | None = getattr(one, column)
    if sealed is None:
        return True
    try:
        setattr(one, column, vault.reseal(sealed))
    except PallasError:
        setattr(one, column, None)
        return False
    return True
