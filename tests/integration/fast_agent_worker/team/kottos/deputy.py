"""An agent between two others, each of a module of its own."""

import asyncio

from fast_agent import FastAgent

fast = FastAgent("Deputy")


@fast.agent("deputy", instruction="You hand on.", servers=["research"])
async def main() -> None:
    async with fast.run() as agent:
        await agent.interactive()


if __name__ == "__main__":
    asyncio.run(main())
