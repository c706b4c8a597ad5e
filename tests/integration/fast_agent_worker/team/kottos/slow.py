"""Workflows with a model that takes three seconds."""

import asyncio

from fast_agent import FastAgent

fast = FastAgent("Slow")


@fast.agent("payer", instruction="You pay.", servers=["ledger"])
@fast.agent("thinker", instruction="You think.", model="slow")
@fast.chain("late", sequence=["payer", "thinker"])
@fast.chain("early", sequence=["thinker", "payer"])
async def main() -> None:
    async with fast.run() as agent:
        await agent.interactive()


if __name__ == "__main__":
    asyncio.run(main())
