"""A module that runs its agent when it is imported."""

import asyncio

from fast_agent import FastAgent

fast = FastAgent("Unguarded")


@fast.agent("unguarded", instruction="You run at once.")
async def main() -> None:
    async with fast.run() as agent:
        await agent.interactive()


asyncio.run(main())
