"""What Pallas uses: the package itself re-exports names without saying so, and types few of its parameters."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

type SigningKey = EllipticCurvePrivateKey | Ed25519PrivateKey
type VerificationKey = EllipticCurvePublicKey | Ed25519PublicKey

class HTTPSignatureAlgorithm:
    algorithm_id: str

class HTTPMessageSignaturesException(Exception): ...

class MappingKeyResolver:
    def __init__(
        self, *, public_keys: Mapping[str, VerificationKey], private_keys: Mapping[str, SigningKey]
    ) -> None: ...

class VerifyResult(NamedTuple):
    label: str
    algorithm: type[HTTPSignatureAlgorithm]
    covered_components: dict[str, str]
    parameters: dict[str, int | str]
    body: bytes | None
    nonce: str | None

class _Headers(Protocol):
    def items(self) -> Iterable[tuple[str, str]]: ...

class _Message(Protocol):
    @property
    def method(self) -> str: ...
    @property
    def url(self) -> Any: ...
    @property
    def headers(self) -> _Headers: ...

class HTTPMessageVerifier:
    def __init__(
        self, *, signature_algorithm: type[HTTPSignatureAlgorithm], key_resolver: MappingKeyResolver
    ) -> None: ...
    def verify(
        self,
        message: _Message,
        *,
        max_age: timedelta | None = ...,
        require_components: Sequence[str] = (),
        body: bytes | None = None,
    ) -> list[VerifyResult]: ...

class HTTPMessageSigner:
    def __init__(
        self, *, signature_algorithm: type[HTTPSignatureAlgorithm], key_resolver: MappingKeyResolver
    ) -> None: ...
    def sign(
        self,
        message: _Message,
        *,
        key_id: str,
        created: datetime | None = None,
        nonce: str | None = None,
        covered_component_ids: Sequence[str] = ...,
        body: bytes | None = None,
    ) -> None: ...
