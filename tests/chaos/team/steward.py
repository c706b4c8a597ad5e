"""An agent of fast-agent that does as it is told, in several steps, each of which is counted."""

import asyncio

from fast_agent import FastAgent

fast = FastAgent("Steward")


@fast.agent("steward", instruction="You do as you are told.", model="generic.offline", servers=["counter"])
async def main() -> None:
    async with fast.run() as agent:
        await agent.interactive()


if __name__ == "__main__":
    asyncio.run(main())
