"""An agent that reaches others of its folder by their addresses."""

import asyncio

from fast_agent import FastAgent

fast = FastAgent("Chief")


@fast.agent("chief", instruction="You ask others.", servers=["research", "deputy", "guarded"])
async def main() -> None:
    async with fast.run() as agent:
        await agent.interactive()


if __name__ == "__main__":
    asyncio.run(main())
