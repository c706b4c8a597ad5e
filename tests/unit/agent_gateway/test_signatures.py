"""Signed requests (RFC 9421): which are accepted, from whom, and what each refusal says."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, SECP384R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from http_message_signatures import HTTPMessageSigner, HTTPSignatureAlgorithm, MappingKeyResolver, SigningKey
from http_message_signatures.algorithms import ECDSA_P256_SHA256, ED25519
from jwt.algorithms import ECAlgorithm, OKPAlgorithm

from agent_gateway.http.signatures import Signatures, Signed
from agent_gateway.settings import GatewaySettings
from agent_gateway.signers import read_signers
from pallas_contracts.errors import Denied, Rejected
from pallas_contracts.turns import Principal

EDWARDS, CURVE = Ed25519PrivateKey.generate(), generate_private_key(SECP256R1())
ALGORITHMS: dict[str, tuple[type[HTTPSignatureAlgorithm], SigningKey]] = {
    "ed": (ED25519, EDWARDS),
    "ec": (ECDSA_P256_SHA256, CURVE),
}
SIGNERS: list[dict[str, Any]] = [
    {"kid": "ed", "alg": "ed25519", "use": "sig", **OKPAlgorithm.to_jwk(EDWARDS.public_key(), as_dict=True)},
    {"kid": "ec", **ECAlgorithm.to_jwk(CURVE.public_key(), as_dict=True)},
]
COVERED = ("@method", "@target-uri", "content-digest")
BODY = b'{"method": "agent.execute"}'
URL = "https://gateway.example/teams/data/rpc?x=1"

SIGNATURES = Signatures(read_signers(json.dumps({"keys": SIGNERS})), "https://gateway.example/")


def signed(key: str = "ed", covered: tuple[str, ...] = COVERED, url: str = URL, **more: Any) -> httpx.Request:
    algorithm, private = ALGORITHMS[key]
    request = httpx.Request("POST", url, content=BODY, headers=more.pop("headers", None))
    keys = MappingKeyResolver(public_keys={}, private_keys={key: private})
    signer = HTTPMessageSigner(signature_algorithm=algorithm, key_resolver=keys)
    options: dict[str, Any] = {"body": BODY, **more}
    signer.sign(request, key_id=key, covered_component_ids=covered, **options)
    return request


def verify(request: httpx.Request, body: bytes = BODY) -> Signed:
    """Verify a request as it arrives behind a proxy that ends TLS."""
    path, _, query = request.url.raw_path.partition(b"?")
    headers = [(name.lower(), value) for name, value in request.headers.raw]
    return SIGNATURES.verify(
        {
            "type": "http",
            "scheme": "http",
            "method": request.method,
            "raw_path": path,
            "query_string": query,
            "headers": headers,
        },
        body,
    )


def refusal(request: httpx.Request, body: bytes = BODY) -> str:
    """Why a request is refused."""
    with pytest.raises(Denied) as denied:
        verify(request, body)
    assert denied.value.code == "signature"
    return denied.value.message


@pytest.mark.parametrize("key", ALGORITHMS)
@pytest.mark.parametrize("covered", [COVERED, ("@method", "@authority", "@path", "content-digest")], ids=len)
def test_a_signed_request_is_from_the_owner_of_its_key(key: str, covered: tuple[str, ...]) -> None:
    keyed = signed(key, (*covered, "idempotency-key"), headers={"Idempotency-Key": "k"})
    assert verify(keyed).principal == verify(signed(key, covered)).principal == Principal(type="token", id=f"key:{key}")


def test_the_same_content_has_the_same_digest_however_it_was_signed() -> None:
    now = datetime.now(UTC)
    first, again = (signed("ec", created=now) for _ in range(2))
    assert first.headers["signature"] != again.headers["signature"]
    assert verify(first).digest == verify(again).digest
    assert verify(signed("ec", created=now, nonce="1")).digest != verify(first).digest


def test_a_host_that_is_not_the_public_one_has_the_scheme_of_the_connection() -> None:
    assert verify(signed(url="http://127.0.0.1:7/rpc")).principal.id == "key:ed"


def changed(**headers: str) -> httpx.Request:
    """A signed request with other headers than it was signed with. An empty one is removed."""
    request = signed()
    for name, value in headers.items():
        request.headers.pop(name.replace("_", "-"), None)
        if value:
            request.headers[name.replace("_", "-")] = value
    return request


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (partial(signed, covered=("@method", "content-digest")), "it must cover @target-uri, or @authority and @path"),
        (partial(signed, covered=("@target-uri", "content-digest")), 'component "@method" was not covered'),
        (partial(signed, covered=("@method", "@target-uri"), body=None), 'component "content-digest" was not covered'),
        (partial(signed, created=datetime.now(UTC) - timedelta(seconds=70)), "Signature age exceeds"),
        (partial(signed, created=datetime.now(UTC) + timedelta(days=1)), "in the future"),
        (partial(changed, content_digest="sha-256=:eA==:"), ""),
        (partial(changed, host="evil.example"), ""),
        (partial(changed, signature_input="x"), "one signature with a keyid"),
        (partial(changed, signature_input="x=();keyid=7"), "one signature with a keyid"),
        (partial(changed, signature_input='x=();keyid="ff"'), "the key is unknown"),
        (partial(changed, signature="pyhms=:eA==:"), ""),
        (partial(changed, signature=""), 'Expected "Signature" header'),
        (partial(changed, content_digest=""), '"content-digest" not found'),
        (partial(changed, idempotency_key="again"), "it must cover idempotency-key"),
    ],
    ids=range(14),
)
def test_a_signature_that_does_not_hold_is_refused_with_the_reason(
    make: Callable[[], httpx.Request], reason: str
) -> None:
    message = refusal(make())
    assert message.startswith("The signature of this request is not accepted: ")
    assert reason in message


def test_a_signed_request_with_a_bearer_is_refused() -> None:
    request = signed()
    request.headers["authorization"] = "Bearer x"
    assert "either a signature or a bearer, not both" in refusal(request)


def test_another_body_is_refused() -> None:
    assert "Content-Digest does not match" in refusal(signed(), BODY + b" ")


def test_a_key_signs_with_its_own_algorithm_only() -> None:
    claimed = signed("ec").headers["signature-input"].replace('keyid="ec"', 'keyid="ed"')
    assert "Unexpected algorithm" in refusal(changed(signature_input=claimed))


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ("nonsense", "no JWK Set"),
        ("{}", "keys: Field required"),
        ([{"kty": "OKP"}], "keys.0.kid: Field required"),
        ([*SIGNERS, SIGNERS[0]], "two keys have the same kid"),
        ([{"kid": "r", "kty": "RSA", "n": "x", "e": "AQAB"}], "key 'r' must be Ed25519 (kty OKP) or P-256 (kty EC)"),
        ([{"kid": "s", "kty": "oct", "k": "c2VjcmV0"}], "key 's' must be"),
        ([{"kid": "x", **ECAlgorithm.to_jwk(generate_private_key(SECP384R1()).public_key(), as_dict=True)}], "key 'x'"),
        ([{"kid": "p", **OKPAlgorithm.to_jwk(EDWARDS, as_dict=True)}], "key 'p' is a private key; give the public one"),
        ([{**SIGNERS[0], "x": "AAAA"}], "key 'ed' cannot be read"),
        ([{**SIGNERS[1], "y": SIGNERS[1]["x"]}], "key 'ec' cannot be read"),
    ],
    ids=range(10),
)
def test_a_set_of_keys_that_cannot_be_used_stops_the_start_with_the_reason(keys: object, reason: str) -> None:
    text = keys if isinstance(keys, str) else json.dumps({"keys": keys})
    with pytest.raises(Rejected) as refused:
        GatewaySettings.from_env({"PALLAS_SIGNERS": text})
    assert refused.value.message.startswith("PALLAS_SIGNERS: ")
    assert reason in refused.value.message
