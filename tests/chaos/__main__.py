"""`python -m tests.chaos [--seed N] [--turns N] [--fleet]`: a storm, its table, and exit code 1 for violations.

The storm and its calls follow from the seed; how they meet does not.
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.chaos import report
from tests.chaos.fleet_storm import FleetOptions, run_fleet
from tests.chaos.run import Options, run

RESULTS = Path(__file__).parents[2] / "bench" / "results"


def main() -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), help="default: another one each time")
    parser.add_argument("--turns", type=int, help="calls to make (default: 500, with --pipelines 200)")
    parser.add_argument("--seconds", type=float, default=180.0, help="how long blows fall at most")
    parser.add_argument("--every", type=float, help="seconds between two blows on average (default: 2.5, 0.2)")
    parser.add_argument("--pipelines", action="store_true", help="only programs of 30 nodes, and blows without a break")
    parser.add_argument("--fleet", action="store_true", help="only tasks of coding agents (default: 200)")
    parser.add_argument("--keep", type=Path, help="folder for the logs of all processes, which are else thrown away")
    options = parser.parse_args()
    turns, every = (200, 0.2) if options.pipelines else (500, 2.5)
    wanted = Options(
        options.seed,
        options.turns or turns,
        options.seconds,
        options.every or every,
        pipelines=options.pipelines,
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="pallas-chaos-") as temporary:
        folder = options.keep or Path(temporary)
        if folder.exists() and any(folder.iterdir()):
            parser.error(f"{folder} is not empty: what another storm has left there would be counted")
        folder.mkdir(parents=True, exist_ok=True)
        tell = partial(print, file=sys.stderr, flush=True)
        if options.fleet:
            fleet = asyncio.run(run_fleet(FleetOptions(options.seed, tasks=options.turns or 200), folder, tell))
            print(f"seed {options.seed}: {fleet}")
            return 1 if fleet.violations else 0
        result = asyncio.run(run(wanted, folder, tell))
    path = report.write(report.facts(result), RESULTS)
    print(path.read_text("utf-8"))
    return 1 if result.violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
