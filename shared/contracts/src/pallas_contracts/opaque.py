"""The text of an opaque token: `pallas_`, 32 random bytes in base62, and a CRC-32 of both in base62.

Length and alphabet are fixed, so that secret scanners find tokens by a pattern. The checksum shows typing errors. Only
the digest of a token is stored.
"""

import hashlib
import re
import secrets
import zlib

PREFIX = "pallas_"
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM, _CHECK = 43, 6
"""Base62 digits of 256 and of 32 bits."""
_PATTERN = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{_RANDOM + _CHECK}}}")


def new_opaque_token() -> str:
    """Make a token."""
    body = PREFIX + _base62(secrets.randbits(256), _RANDOM)
    return body + _checksum(body)


def is_opaque_token(text: str) -> bool:
    """Whether `text` could have been made by `new_opaque_token`."""
    return _PATTERN.fullmatch(text) is not None and _checksum(text[:-_CHECK]) == text[-_CHECK:]


def token_digest(text: str) -> str:
    """The digest of a token, which is stored: SHA-256 in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()), _CHECK)


def _base62(number: int, digits: int) -> str:
    text = ""
    for _ in range(digits):
        number, digit = divmod(number, 62)
        text = _ALPHABET[digit] + text
    return text
