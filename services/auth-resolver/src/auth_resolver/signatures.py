"""Verifies that a JWT was signed with the key that it names.

The algorithm is that of the key's record, never that of the token. Valid signatures are cached with the parts of their
JWTs: a signature stays valid, whether or not its key and team still do. Invalid ones are not cached, so junk fills no
memory. The cache is keyed by SHA-256: a team JWT is valid for ten years, and must not stay in the memory of a process.
"""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from jwt import PyJWS
from jwt.exceptions import PyJWTError

from auth_resolver.claims import Parts, refused
from pallas_contracts.auth import KeyRecord
from pallas_contracts.errors import PallasError

log = logging.getLogger(__name__)

_jws = PyJWS()

_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class _Signed:
    parts: Parts
    algorithm: str
    sealed: str


class Signatures:
    """Verifies signatures with the secrets of the keys, which it decrypts with the Fernet keys."""

    def __init__(self, fernet_keys: Sequence[str]) -> None:
        self._fernet = MultiFernet([Fernet(key) for key in fernet_keys])
        self._secret = lru_cache(1000)(self._open)
        self._signed: dict[bytes, _Signed] = {}

    def known(self, text: str) -> Parts | None:
        """The parts of a JWT with a cached signature."""
        signed = self._signed.get(_digest(text))
        return signed.parts if signed is not None else None

    def check(self, text: str, parts: Parts, key: KeyRecord | None) -> None:
        """Check that the key may sign such a JWT, and has signed `text`, which has these parts.

        Raises:
            Denied: it may not or has not (`invalid_signature`).
            PallasError: no Fernet key decrypts the secret of the key (`sealed_by_another`).
        """
        if key is None or key.retired or key.kid != parts.kid or parts.purpose not in key.purposes:
            raise refused("invalid_signature")
        digest = _digest(text)
        signed = self._signed.get(digest)
        if signed is not None and (signed.algorithm, signed.sealed) == (key.algorithm, key.secret):
            return
        if not self._verify(text, key):
            raise refused("invalid_signature")
        if len(self._signed) >= _REMEMBERED:
            del self._signed[next(iter(self._signed))]
        self._signed[digest] = _Signed(parts, key.algorithm, key.secret)

    def _verify(self, text: str, key: KeyRecord) -> bool:
        try:
            secret = self._secret(key.algorithm, key.secret)
        except InvalidToken as error:
            reason = "a signing key is encrypted with a key that is not in PALLAS_FERNET_KEYS"
            log.error(reason, extra={"kid": key.kid})
            raise PallasError(reason, code="sealed_by_another") from error
        try:
            _jws.decode(text, secret, algorithms=[key.algorithm])
        except (PyJWTError, UnsupportedAlgorithm, ValueError, TypeError, RecursionError):
            return False
        return True

    def _open(self, algorithm: str, sealed: str) -> bytes:
        return sealed.encode() if algorithm == "EdDSA" else bytes.fromhex(self._fernet.decrypt(sealed).decode())


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="replace")).digest()
