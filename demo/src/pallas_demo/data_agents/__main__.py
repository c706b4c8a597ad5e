"""Hosts the demo's data agents until a signal."""

import logging
import sys

from pallas_data_agent import run_agents
from pallas_demo.data_agents.example_lib import example_lib
from pallas_demo.data_agents.markets import AGENTS

DEFAULT_POOL = "http://127.0.0.1:23069"


def main() -> None:
    """Connect to the pool whose address is the argument."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s %(message)s")
    logging.getLogger("pallas_data_agent").setLevel(logging.INFO)
    run_agents([*AGENTS, example_lib], sys.argv[1] if sys.argv[1:] else DEFAULT_POOL)


if __name__ == "__main__":
    main()
