"""Valid and forged bearers, and the rows of team-lifecycle that decide about them."""

import base64
import hashlib
import hmac
import json
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pallas_contracts.auth import KeyPurpose, KeyRecord, LookupKey, TeamRecord, TokenRecord
from pallas_contracts.opaque import new_opaque_token, token_digest

FERNET_KEY = Fernet.generate_key().decode()
_fernet = Fernet(FERNET_KEY)

type Claims = dict[str, Any]


def encoded(raw: bytes) -> str:
    """Base64url without padding, as a JWT has it."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def without(claims: Claims, *names: str) -> Claims:
    return {name: value for name, value in claims.items() if name not in names}


@dataclass(frozen=True)
class Key:
    """A key that signs: HS256, or EdDSA when it has a `private` part."""

    kid: str
    purposes: tuple[KeyPurpose, ...]
    secret: bytes = field(default_factory=lambda: uuid.uuid4().bytes * 2, repr=False)
    private: Ed25519PrivateKey | None = None
    retired: bool = False

    @property
    def public(self) -> bytes:
        """The public part in PEM."""
        assert self.private is not None
        return self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    @property
    def record(self) -> KeyRecord:
        """The key's record in team-lifecycle."""
        algorithm = "HS256" if self.private is None else "EdDSA"
        sealed = _fernet.encrypt(self.secret.hex().encode()).decode() if self.private is None else self.public.decode()
        return KeyRecord(kid=self.kid, algorithm=algorithm, secret=sealed, purposes=self.purposes, retired=self.retired)

    def signature(self, text: str) -> bytes:
        if self.private is not None:
            return self.private.sign(text.encode())
        return hmac.digest(self.secret, text.encode(), hashlib.sha256)

    def sign(self, claims: Claims | bytes, **header: object) -> str:
        """A JWT of these claims (or bytes); `header` adds to its header, and replaces."""
        head = {"alg": "HS256" if self.private is None else "EdDSA", "typ": "JWT", "kid": self.kid} | header
        return self.sign_raw(json.dumps(head).encode(), claims)

    def sign_raw(self, header: bytes, claims: Claims | bytes) -> str:
        """A JWT with exactly this header."""
        payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
        text = f"{encoded(header)}.{encoded(payload)}"
        return f"{text}.{encoded(self.signature(text))}"


TEAM_KEY = Key("team-0123456789abcdef", ("team",))
TURN_KEY = Key("turn-0123456789abcdef", ("turn",))
BOTH_KEY = Key("both-0123456789abcdef", ("team", "turn"))
ED_KEY = Key("team-ed25519", ("team",), private=Ed25519PrivateKey.generate())
RETIRED_KEY = Key("team-retired", ("team",), retired=True)
STRANGE_KEY = Key("team-strange", ("team",))
"""A key that team-lifecycle does not have."""

TEAM, DELETED, EMPTY, NOBODY = (str(uuid.UUID(int=number)) for number in (1, 2, 3, 4))
"""Teams: one that reads two libraries, a deleted one, one that reads nothing, and one that does not exist."""
JTI = str(uuid.UUID(int=99))
LIBRARIES = ("lib_a", "lib_b")


def team_claims(team: str = TEAM, /, **claims: object) -> Claims:
    """The claims of a team's JWT. `claims` replace and add."""
    now = int(time.time())
    return {
        "iss": "mnemosyne",
        "aud": "mnemosyne",
        "sub": f"team:{team}",
        "typ": "team",
        "iat": now,
        "exp": now + 315_360_000,
        "jti": JTI,
        **claims,
    }


def turn_claims(**claims: object) -> Claims:
    """The claims of a per-turn JWT. Its `iat` is ahead of the clock, so that it is younger than Redis."""
    now = int(time.time()) + 5
    return {
        "iss": "daedalus",
        "aud": "mnemosyne",
        "sub": "daedalus-chat",
        "iat": now,
        "exp": now + 600,
        "jti": str(uuid.uuid4()),
        "ws": "ws_abc",
        "libs": ["lib_xxx", "lib_yyy"],
        **claims,
    }


@dataclass(frozen=True)
class Opaque:
    """An opaque token and its row."""

    text: str
    record: TokenRecord

    @property
    def key(self) -> LookupKey:
        """The key of its look-up."""
        return LookupKey(kind="token", id=token_digest(self.text))


def opaque(name: str, **fields: Any) -> Opaque:
    """A token of ada's."""
    row: dict[str, Any] = {"id": f"id of {name}", "name": name, "user": "ada", "libraries": LIBRARIES, **fields}
    return Opaque(new_opaque_token(), TokenRecord(**row))


def teams() -> list[TeamRecord]:
    """The teams that exist."""
    return [
        TeamRecord(id=TEAM, name="Kottos", active=True, active_jti=JTI, libraries=LIBRARIES),
        TeamRecord(id=DELETED, name="Briareos", active=False, active_jti=JTI),
        TeamRecord(id=EMPTY, name="Gyges", active=True, active_jti=JTI),
    ]


KEYS = (TEAM_KEY, TURN_KEY, BOTH_KEY, ED_KEY, RETIRED_KEY)
"""The keys that team-lifecycle has."""
