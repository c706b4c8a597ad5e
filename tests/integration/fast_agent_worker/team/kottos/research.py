"""An agent and a workflow."""

import asyncio

from fast_agent import FastAgent

fast = FastAgent("Research")


@fast.agent("research", instruction="You find sources.", servers=["ledger"], use_history=True)
@fast.agent("short", instruction="You shorten.")
@fast.agent("claude", instruction="You greet.", model="claude-haiku-4-5")
@fast.chain("digest", sequence=["research", "short"])
async def main() -> None:
    async with fast.run() as agent:
        await agent.interactive()


if __name__ == "__main__":
    asyncio.run(main())
