"""Whether a JWT was signed by the key that it names.

The key's record says by which algorithm, never the token. A verdict is remembered for one text under one secret: it is
a fact about bytes, and says nothing of whether key or team still count.
"""

from collections.abc import Sequence
from functools import lru_cache

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from jwt import PyJWS
from jwt.exceptions import PyJWTError

from auth_resolver.claims import Parts
from auth_resolver.failures import refused
from pallas_contracts.auth import KeyPurpose, KeyRecord
from pallas_contracts.errors import PallasError

_jws = PyJWS()

_REMEMBERED = 10_000


class Signatures:
    """Verifies signatures with the keys' secrets, which it opens by the keys of the settings."""

    def __init__(self, fernet_keys: Sequence[str]) -> None:
        self._fernet = MultiFernet([Fernet(key) for key in fernet_keys])
        self._secret = lru_cache(1000)(self._open)
        self._verdict = lru_cache(_REMEMBERED)(self._verify)

    def check(self, parts: Parts, key: KeyRecord | None, purpose: KeyPurpose) -> None:
        """Check that this key may vouch for such a token, and has.

        Raises:
            Denied: it has not (`invalid_signature`).
            PallasError: the key's secret cannot be opened with our keys (`sealed_by_another`).
        """
        if key is None or key.retired or key.kid != parts.kid or purpose not in key.purposes:
            raise refused("invalid_signature")
        if not self._verdict(parts, key.algorithm, key.secret):
            raise refused("invalid_signature")

    def _verify(self, parts: Parts, algorithm: str, sealed: str) -> bool:
        secret = self._secret(algorithm, sealed)
        try:
            _jws.decode(parts.text, secret, algorithms=[algorithm])
        except (PyJWTError, UnsupportedAlgorithm, ValueError, TypeError, RecursionError):
            return False
        return True

    def _open(self, algorithm: str, sealed: str) -> bytes:
        if algorithm == "EdDSA":
            return sealed.encode()
        try:
            return bytes.fromhex(self._fernet.decrypt(sealed).decode())
        except InvalidToken as error:
            text = "a signing key was sealed by a key that PALLAS_FERNET_KEYS does not list"
            raise PallasError(text, code="sealed_by_another") from error
