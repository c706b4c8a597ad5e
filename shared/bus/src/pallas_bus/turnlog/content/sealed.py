"""Sealed content: what failed turns were asked, kept for longer than other content where their team wants that.

It is encrypted before it leaves the executor, in a sealed box of NaCl (X25519 and XSalsa20-Poly1305). Executors have
the public key only, so neither they nor the broker, its disk and its backups can open what is kept. Operators have the
private key. What is inside names its turn, so readers notice a box that was moved to another turn.
"""

import binascii

from nacl.encoding import Base64Encoder
from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, PublicKey, SealedBox

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import count_by_subject, read
from pallas_bus.turnlog.content.objects import put_parts
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.catalog import KEPT_FAILED, SEALED_PART
from pallas_contracts.errors import Rejected

REQUEST, ORIGINAL = "request", "original"
"""The names of what is sealed: the request of a turn, the original of a dead letter."""

type SealKey = PublicKey
"""The public key, which seals."""

type OpenKey = PrivateKey
"""The private key, which opens."""


def seal_key(text: str) -> SealKey:
    """The public key in a setting, 32 bytes in base64.

    Raises:
        Rejected: it is not one.
    """
    try:
        return PublicKey(text.strip().encode(), Base64Encoder)
    except (binascii.Error, ValueError, TypeError, CryptoError) as error:
        raise Rejected("must be a public key of `pallas turns keep-key`: 32 bytes in base64") from error


def open_key(text: str) -> OpenKey:
    """The private key of operators, 32 bytes in base64.

    Raises:
        Rejected: it is not one. The message does not have it.
    """
    try:
        return PrivateKey(text.strip().encode(), Base64Encoder)
    except (binascii.Error, ValueError, TypeError, CryptoError):
        raise Rejected("must be a private key of `pallas turns keep-key`: 32 bytes in base64") from None


def new_open_key() -> str:
    """A new private key, as `open_key` reads it."""
    return PrivateKey.generate().encode(Base64Encoder).decode()


def seal_key_of(key: OpenKey) -> str:
    """The public key that belongs to a private one, as `seal_key` reads it."""
    return key.public_key.encode(Base64Encoder).decode()


async def keep_sealed(bus: Bus, ref: TurnRef, name: str, data: bytes, key: SealKey, *, ttl: float) -> None:
    """Seal `data` and store it for `ttl` seconds under the turn's id and `name`. Repeating this replaces it.

    Raises:
        Unavailable: the broker did not acknowledge every part; the call may be repeated.
    """
    await put_parts(bus, SEALED_PART, ref, name, SealedBox(key).encrypt(data), ttl=ttl)


async def open_sealed(bus: Bus, ref: TurnRef, name: str, key: OpenKey) -> bytes | None:
    """Read and open what is sealed; None if nothing is kept, or not any more.

    Raises:
        Rejected: it is damaged, or sealed for another key (`content_damaged`).
        Unavailable: the broker does not answer.
    """
    records = read(bus, KEPT_FAILED.name, sealed_of(ref, name))
    parts = {int(it.subject.rpartition(".")[2]): it.data async for it in records}
    if not parts:
        return None
    try:
        return SealedBox(key).decrypt(b"".join(parts[number] for number in sorted(parts)))
    except CryptoError as error:
        message = f"what is sealed of turn {ref.turn_id!r} is damaged, or sealed for another key"
        raise Rejected(message, code="content_damaged") from error


async def sealed_turns(bus: Bus, *, team: str | None = None, agent: str | None = None) -> set[str]:
    """The ids of turns, and names of dead letters, of which something is kept.

    Raises:
        Unavailable: the broker does not answer.
    """
    ids = {field: value for field, value in (("team", team), ("agent", agent)) if value is not None}
    every = SEALED_PART.template.filter(**ids, part="0")
    found = map(SEALED_PART.template.parse, await count_by_subject(bus, KEPT_FAILED.name, every))
    return {names["turn"] for names in found if names is not None}


async def drop_sealed(bus: Bus, ref: TurnRef, name: str) -> None:
    """Remove what is sealed of the turn under `name`.

    Raises:
        Unavailable: the broker does not answer; the call may be repeated.
    """
    await bus.api(f"STREAM.PURGE.{KEPT_FAILED.name}", {"filter": sealed_of(ref, name)})


def sealed_of(ref: TurnRef, name: str | None = None) -> str:
    """The subject filter that matches all that is sealed of the turn, or what is sealed under `name`."""
    names = {"name": name} if name is not None else {}
    return SEALED_PART.template.filter(team=ref.team, agent=ref.agent, turn=ref.turn_id, **names)
