"""The turn of a trace as baggage: the keys `pallas.team`, `pallas.agent`, `pallas.turn`.

Other baggage of callers is private: it is passed neither to the broker, which stores messages, nor to downstream
servers.
"""

from collections.abc import Mapping
from typing import override

from opentelemetry import baggage
from opentelemetry.context import Context
from opentelemetry.propagators import textmap

from pallas_contracts.ids import is_token

BAGGAGE = "baggage"
"""The name of the header, and of the key in `_meta`."""

TURN_KEYS = {"pallas.team": "team", "pallas.agent": "agent", "pallas.turn": "turn"}
"""Baggage keys and span attributes, and the fields of log lines for them."""


def turn_of(within: Context | None = None) -> dict[str, str]:
    """The turn of a context (by default the current one), by baggage key; empty without a turn."""
    known = baggage.get_all(within)
    return {key: str(known[key]) for key in TURN_KEYS if key in known} if known else {}


def with_turn(turn: Mapping[str, str], within: Context | None = None) -> Context:
    """The context `within` (by default the current one, without its baggage) with a turn."""
    found = within if within is not None else baggage.clear()
    for key, value in turn.items():
        found = baggage.set_baggage(key, value, found)
    return found


class TurnBaggage(textmap.TextMapPropagator):
    """Propagates the turn and no other baggage."""

    @override
    def extract(
        self,
        carrier: textmap.CarrierT,
        context: Context | None = None,
        getter: textmap.Getter[textmap.CarrierT] = textmap.default_getter,
    ) -> Context:
        header = ",".join(getter.get(carrier, BAGGAGE) or ())
        entries = [entry.partition(";")[0].partition("=") for entry in header.split(",")]
        given = {key.strip(): value.strip() for key, _, value in entries}
        known = {key: value for key, value in given.items() if key in TURN_KEYS and is_token(value)}
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
