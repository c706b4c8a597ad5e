"""Agents whose models cannot be called."""

import asyncio

from fast_agent import FastAgent

fast = FastAgent("Odd")


@fast.agent("unknown", instruction="You never start.", model="no-such-model")
@fast.agent("keyless", instruction="You have no key.", model="groq.a-model")
async def main() -> None:
    async with fast.run() as agent:
        await agent.interactive()


if __name__ == "__main__":
    asyncio.run(main())
