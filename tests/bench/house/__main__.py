"""`python -m tests.bench.house [--no-turn]`: how large the code is, and how much of it a turn runs through."""

import argparse

from tests.bench.house.size import size
from tests.bench.house.turn import turn


def main() -> None:
    """Print a row of Markdown for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-turn", action="store_true", help="only what can be counted without running anything")
    rows = size() | ({} if parser.parse_args().no_turn else turn())
    print("| | |\n|---|---:|")
    for name, figure in rows.items():
        print(f"| {name} | {figure} |")


if __name__ == "__main__":
    main()
