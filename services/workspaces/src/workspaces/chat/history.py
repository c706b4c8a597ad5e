"""What an agent is sent of a conversation (interface contract, section 2). No input or output here.

The newest exchanges are kept, as many as fit into the agent's window. Exchanges without an answer are left out as a
whole. Sizes of texts are bytes in UTF-8, not characters, since scripts with more bytes need more tokens, too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

BYTES_PER_TOKEN = 3.5
TOKENS_PER_IMAGE = 1000
LARGEST_REQUEST = 12 * 1024 * 1024
"""Bytes of a call's arguments as JSON, about."""
MOST_ENTRIES = 1000
"""Messages that are looked at, the newest ones."""
_AROUND = 100
"""Bytes of JSON around a text or an image."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored message: its number in the conversation, and the sizes of its text and images."""

    seq: int
    role: str
    status: str
    bytes: int
    images: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Model:
    """What the registry says about the agent's model."""

    vision: bool = False
    context_window: int | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The part of the window that history may take. `messages` and `bytes` count if the window is not known."""

    share: float = 0.7
    messages: int = 40
    bytes: int = 200_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send: exchanges from the message `first` on; their images from the message `images` on, None: no images.

    Without history `first` is the message that is to be answered.
    """

    first: int
    images: int | None


type Exchange = tuple[Entry, Entry]


def plan_history(entries: Iterable[Entry], asked: Entry, model: Model, limits: Limits) -> Plan:
    """The plan for answering `asked`. `entries` are the messages before it, the oldest first."""
    room, most = _room(asked, model, limits)
    body = LARGEST_REQUEST - _body(asked)
    first = asked.seq
    kept = list[Exchange]()
    for exchange in reversed(exchanges(entries)):
        room -= sum(_cost(entry, model) for entry in exchange)
        body -= sum(entry.bytes + _AROUND for entry in exchange)
        most -= len(exchange)
        if room < 0 or body < 0 or most < 0:
            break
        kept.append(exchange)
        first = exchange[0].seq
    return Plan(first, _images_from(kept, body) if model.vision else None)


def halve(entries: Iterable[Entry], plan: Plan) -> Plan | None:
    """The plan with the newer half of what was sent, for a model whose window was too small; None: there is no half."""
    sent = [one for one in exchanges(entries) if one[0].seq >= plan.first]
    if not sent:
        return None
    model = Model(vision=plan.images is not None)
    costs = [sum(_cost(entry, model) for entry in exchange) for exchange in sent]
    half = sum(costs) / 2
    while sent and sum(costs) > half:
        sent, costs = sent[1:], costs[1:]
    first = sent[0][0].seq if sent else max(entry.seq for entry in entries) + 1
    return replace(plan, first=first, images=None if plan.images is None else max(plan.images, first))


def exchanges(entries: Iterable[Entry]) -> list[Exchange]:
    """Messages of the person with their answers, the oldest first, without those that were not answered."""
    found, asked = list[Exchange](), None
    for entry in entries:
        if entry.role == "user":
            asked = entry
        elif asked is not None and entry.status == "answered":
            found.append((asked, entry))
            asked = None
    return found


def _room(asked: Entry, model: Model, limits: Limits) -> tuple[float, float]:
    """How much history may cost, in tokens, and the most messages.

    The model's longest answer is kept free, but never more than half of the room: some models have an output limit that
    is as large as their window.
    """
    if model.context_window is None:
        return limits.bytes / BYTES_PER_TOKEN, limits.messages
    room = limits.share * model.context_window
    return room - min(model.max_output_tokens or 0, room / 2) - _cost(asked, model), MOST_ENTRIES


def _cost(entry: Entry, model: Model) -> float:
    """The tokens of a message, about."""
    return entry.bytes / BYTES_PER_TOKEN + len(entry.images) * (TOKENS_PER_IMAGE if model.vision else 2)


def _body(entry: Entry) -> int:
    return entry.bytes + sum(_encoded(size) for size in entry.images) + _AROUND


def _encoded(size: int) -> int:
    """The size of an image in JSON."""
    return size * 4 // 3 + _AROUND


def _images_from(kept: Sequence[Exchange], body: int) -> int | None:
    """From which message on images fit into the request, the newest exchange first."""
    images = None
    for asked, _ in kept:
        body -= sum(map(_encoded, asked.images))
        if body < 0:
            break
        images = asked.seq
    return images
