"""Two agents in a chain. Each calls the tool that its message names, and the answer is the message of the next one."""

from fast_agent import FastAgent

fast = FastAgent("Workflow")


@fast.agent("first", instruction="You begin.", model="passthrough", servers=["bench"])
@fast.agent("second", instruction="You go on.", model="passthrough", servers=["bench"])
@fast.chain("workflow", sequence=["first", "second"])
async def main() -> None:
    """Never runs."""
