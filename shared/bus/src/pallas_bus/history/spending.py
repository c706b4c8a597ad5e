"""What a call of a model has spent."""

from datetime import UTC, datetime

from pallas_contracts.costs import Spending, day_of
from pallas_contracts.turns import ModelCalled


def spending_of(team: str, call: ModelCalled) -> Spending:
    """What a call of a model in a turn of `team` has spent. Its day is that of the worker's clock."""
    return Spending(
        day=day_of(datetime.fromtimestamp(call.at / 1000, UTC)),
        team=team,
        caller=call.caller,
        calls=1,
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
        cached_tokens=call.cached_tokens,
        unpriced_calls=call.cost is None,
        money={call.cost.currency: call.cost.nanos} if call.cost is not None else {},
    )
