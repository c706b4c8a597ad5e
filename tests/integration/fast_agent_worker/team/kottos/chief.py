"""An agent that reaches another one of its folder by that one's address."""

import asyncio

from fast_agent import FastAgent

fast = FastAgent("Chief")


@fast.agent("chief", instruction="You ask others.", servers=["research"])
async def main() -> None:
    async with fast.run() as agent:
        await agent.interactive()


if __name__ == "__main__":
    asyncio.run(main())
