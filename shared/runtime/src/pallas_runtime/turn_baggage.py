"""Which turn a trace is about, as it travels beside it: the baggage keys `pallas.team`, `pallas.agent`, `pallas.turn`.

What else callers put into their baggage is their own: it reaches neither the broker, which keeps what it is sent, nor
downstream servers.
"""

from collections.abc import Mapping
from typing import override

from opentelemetry import baggage
from opentelemetry.context import Context
from opentelemetry.propagators import textmap

from pallas_contracts.ids import is_token

BAGGAGE = "baggage"
"""The header, and the key of `_meta`, that has it."""

TURN_KEYS = {"pallas.team": "team", "pallas.agent": "agent", "pallas.turn": "turn"}
"""Keys of baggage and attributes of spans, with the fields that they are in log lines."""


def turn_of(within: Context | None = None) -> dict[str, str]:
    """Which turn a context (the current one) belongs to, by the keys of baggage; empty when to none."""
    known = baggage.get_all(within)
    return {key: str(known[key]) for key in TURN_KEYS if key in known} if known else {}


def with_turn(turn: Mapping[str, str], within: Context | None = None) -> Context:
    """A context (the current one) that belongs to a turn."""
    found = within if within is not None else baggage.clear()
    for key, value in turn.items():
        found = baggage.set_baggage(key, value, found)
    return found


class TurnBaggage(textmap.TextMapPropagator):
    """Lets nothing of the baggage in or out but which turn it is."""

    @override
    def extract(
        self,
        carrier: textmap.CarrierT,
        context: Context | None = None,
        getter: textmap.Getter[textmap.CarrierT] = textmap.default_getter,
    ) -> Context:
        header = ",".join(getter.get(carrier, BAGGAGE) or ())
        entries = [entry.partition(";")[0].partition("=") for entry in header.split(",")]
        told = {key.strip(): value.strip() for key, _, value in entries}
        known = {key: value for key, value in told.items() if key in TURN_KEYS and is_token(value)}
        return with_turn(known, context if context is not None else Context())

    @override
    def inject(
        self,
        carrier: textmap.CarrierT,
        context: Context | None = None,
        setter: textmap.Setter[textmap.CarrierT] = textmap.default_setter,
    ) -> None:
        if known := turn_of(context):
            setter.set(carrier, BAGGAGE, ",".join(f"{key}={value}" for key, value in known.items()))

    @property
    @override
    def fields(self) -> set[str]:
        return {BAGGAGE}
