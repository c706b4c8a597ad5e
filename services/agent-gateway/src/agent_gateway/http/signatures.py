"""Signed requests: an HTTP message signature (RFC 9421) stands in for a bearer.

A signature covers the method, the address and the digest of the body (RFC 9530), and is valid for a minute. Whoever
sends a signed request again within that time sends the same request: its `digest` is that of everything that is signed.
So a header with an idempotency key has to be signed, too: another key would make another call of it.
The signature itself would not do: of an ECDSA signature anybody can make another valid one.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

import http_sf
from http_message_signatures import (
    HTTPMessageSignaturesException,
    HTTPMessageVerifier,
    HTTPSignatureAlgorithm,
    MappingKeyResolver,
    VerificationKey,
    VerifyResult,
)
from starlette.datastructures import Headers
from starlette.types import Scope

from agent_gateway.signers import Signer
from pallas_contracts.errors import Denied
from pallas_contracts.turns import Principal

SIGNATURE = "signature"
"""The code with which a signed request is refused."""

MAX_AGE = timedelta(seconds=60)

_REQUIRED = ("@method", "content-digest")
_ADDRESS = ({'"@target-uri"'}, {'"@authority"', '"@path"'})
"""Components of which one set must be covered."""


@dataclass(frozen=True, slots=True)
class Signed:
    """Who has signed a request, and the digest of what was signed, as 64 hex digits."""

    principal: Principal
    digest: str


@dataclass(frozen=True, slots=True)
class _Message:
    method: str
    url: str
    headers: Headers


@dataclass(frozen=True)
class Signatures:
    """Verifies signatures by the keys of `signers`. `public_url` is the address that callers use, if one is set."""

    signers: Mapping[str, Signer]
    public_url: str | None = None

    def is_signed(self, scope: Scope) -> bool:
        """Whether a request is signed and signatures are verified here."""
        return bool(self.signers) and any(name == b"signature-input" for name, _ in scope["headers"])

    def key_of(self, scope: Scope) -> str:
        """The key of a signed request, which can be checked before there is a body.

        Raises:
            Denied: the request has a bearer too, or the key is unknown.
        """
        headers = Headers(scope=scope)
        if "authorization" in headers:
            raise _refused("send either a signature or a bearer, not both")
        key = _key_id(headers["signature-input"])
        if key not in self.signers:
            raise _refused("the key is unknown")
        return key

    def verify(self, scope: Scope, body: bytes) -> Signed:
        """Who has signed a request with this body.

        Raises:
            Denied: the request has a bearer too, or the signature is not valid; the message says why.
        """
        headers, key = Headers(scope=scope), self.key_of(scope)
        query = scope["query_string"].decode("latin-1")
        message = _Message(scope["method"], f"{self.address(scope)}{'?' if query else ''}{query}", headers)
        result = _verified(*self.signers[key], key, message, body)
        if "idempotency-key" in headers and '"idempotency-key"' not in result.covered_components:
            raise _refused("it must cover idempotency-key, which the request has")
        signed = "\n".join(f"{name}: {value}" for name, value in result.covered_components.items())
        return Signed(Principal(type="token", id=f"key:{key}"), hashlib.sha256(signed.encode()).hexdigest())

    def address(self, scope: Scope) -> str:
        """The address without its query, as the caller has it: a proxy may have ended its TLS."""
        base, host = self.public_url or "", Headers(scope=scope).get("host", "")
        if urlsplit(base).netloc != host:
            base = f"{scope['scheme']}://{host}"
        return base.rstrip("/") + scope["raw_path"].decode("latin-1")


def _key_id(signature_input: str) -> str:
    """The `keyid` of the only signature."""
    try:
        parsed = http_sf.parse(signature_input.encode("ascii"), tltype="dictionary")
    except ValueError:
        parsed = None
    match list(parsed.values()) if isinstance(parsed, dict) else []:
        case [(list(), {"keyid": str(key)})]:
            return key
        case _:
            raise _refused("Signature-Input must have one signature with a keyid")


def _verified(
    algorithm: type[HTTPSignatureAlgorithm], key: VerificationKey, key_id: str, message: _Message, body: bytes
) -> VerifyResult:
    keys = MappingKeyResolver(public_keys={key_id: key}, private_keys={})
    verifier = HTTPMessageVerifier(signature_algorithm=algorithm, key_resolver=keys)
    try:
        [result] = verifier.verify(message, max_age=MAX_AGE, require_components=_REQUIRED, body=body)
    except HTTPMessageSignaturesException as error:
        raise _refused(str(error) or "it does not fit the request") from None
    if not any(components <= result.covered_components.keys() for components in _ADDRESS):
        raise _refused("it must cover @target-uri, or @authority and @path")
    return result


def _refused(reason: str) -> Denied:
    return Denied(f"The signature of this request is not accepted: {reason}.", code=SIGNATURE)
