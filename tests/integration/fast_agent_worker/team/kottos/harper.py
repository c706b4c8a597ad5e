"""A module as the upstream Pallas hosts it."""

import asyncio

from fast_agent import FastAgent

fast = FastAgent("Harper")


@fast.agent("research", instruction="You find sources.", servers=["ledger"])
@fast.agent(
    "harper",
    instruction="You are Harper. {{serverInstructions}}",
    servers=["ledger", "away"],
    agents=["research"],
    human_input=True,
    default=True,
)
async def main() -> None:
    async with fast.run() as agent:
        await agent.interactive()


if __name__ == "__main__":
    asyncio.run(main())
