"""A module that needs a package that is not there."""

import no_such_package
from fast_agent import FastAgent

fast = FastAgent("Broken")


@fast.agent("broken", instruction=str(no_such_package))
async def main() -> None:
    """Never runs."""
