"""The public keys of programs that sign their requests, from a JWK Set (RFC 7517)."""

from collections.abc import Mapping
from typing import Annotated

from http_message_signatures import HTTPSignatureAlgorithm, VerificationKey
from http_message_signatures.algorithms import ECDSA_P256_SHA256, ED25519
from jwt import PyJWK
from jwt.exceptions import PyJWTError
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

_ALGORITHMS: Mapping[tuple[str, str], type[HTTPSignatureAlgorithm]] = {
    ("OKP", "Ed25519"): ED25519,
    ("EC", "P-256"): ECDSA_P256_SHA256,
}

type Signer = tuple[type[HTTPSignatureAlgorithm], VerificationKey]
"""A public key and the only algorithm with which it may be used."""


class _Key(BaseModel):
    model_config = ConfigDict(extra="allow")

    kid: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    kty: str
    crv: str = ""


class _KeySet(BaseModel):
    keys: tuple[_Key, ...]


def read_signers(text: str) -> dict[str, Signer]:
    """The keys of a JWK Set by their `kid`.

    Raises:
        ValueError: it is no such set, or has a key that cannot be used; the message names the key.
    """
    try:
        keys = _KeySet.model_validate_json(text).keys
    except ValidationError as error:
        fault = error.errors()[0]
        raise ValueError(f"no JWK Set: {'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None
    if len({key.kid for key in keys}) < len(keys):
        raise ValueError("two keys have the same kid")
    return {key.kid: _signer(key) for key in keys}


def _signer(key: _Key) -> Signer:
    algorithm = _ALGORITHMS.get((key.kty, key.crv))
    if algorithm is None:
        raise ValueError(f"key {key.kid!r} must be Ed25519 (kty OKP) or P-256 (kty EC)")
    if "d" in (key.model_extra or {}):
        raise ValueError(f"key {key.kid!r} is a private key; give the public one")
    try:
        return algorithm, PyJWK(key.model_dump(exclude={"alg"})).key
    except (PyJWTError, ValueError) as error:
        raise ValueError(f"key {key.kid!r} cannot be read: {error}") from None


def check_signers(text: str) -> str:
    """The text itself.

    Raises:
        ValueError: as in `read_signers`.
    """
    read_signers(text)
    return text
