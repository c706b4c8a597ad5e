"""A data agent with one function: `python prices.py [URL]`."""

import sys
from typing import TypedDict

from pallas_data_agent import DataAgent, ToolError

agent = DataAgent("prices", title="Prices", timeout=5, memory="128MB", idempotent=True)


class Averages(TypedDict):
    """What the function returns."""

    averages: list[float]


@agent.tool
def moving_average(values: list[float], window: int = 3) -> Averages:
    """The average of each `window` consecutive values."""
    if window < 1:
        raise ToolError("window must be at least 1")
    spans = (values[at : at + window] for at in range(len(values) - window + 1))
    return {"averages": [sum(span) / window for span in spans]}


if __name__ == "__main__":
    agent.run(sys.argv[1] if sys.argv[1:] else "http://127.0.0.1:23069")
