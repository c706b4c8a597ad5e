"""A reply that this replica calls an agent for."""

import asyncio
from typing import Any

from pallas_contracts.errors import NotFound
from pallas_mcp_calls.model import Question, Reply
from workspaces.chat.concluding import Concluding
from workspaces.chat.model import Claim
from workspaces.chat.patience import with_postgres
from workspaces.chat.voice import Voice


class Held:
    """The call for a reply, while it runs. `task` is set by who starts it.

    `movable`: another replica can go on with it, because the call was not made or can be repeated under its key.
    """

    def __init__(self, claim: Claim, voice: Voice, concluding: Concluding) -> None:
        self.claim = claim
        self.voice = voice
        self.task: asyncio.Task[None] | None = None
        self.movable = True
        self._concluding = concluding
        self._answers = dict(claim.answers)
        self._answered = asyncio.Condition()
        self._one_question = asyncio.Lock()

    async def ask(self, question: Question) -> Reply:
        """Ask the person, one question at a time. A question that was answered before is not asked again."""
        async with self._one_question:
            if question.id not in self._answers:
                try:
                    known = await with_postgres(lambda: self._concluding.ask(self.claim, question), "ask the person")
                except NotFound:
                    # This replica has lost the reply, and the next renewal cancels the call.
                    await asyncio.Event().wait()
                    raise
                if known is not None:
                    self._answers[question.id] = known
            async with self._answered:
                await self._answered.wait_for(lambda: question.id in self._answers)
        answer = self._answers[question.id]
        return Reply(answer["action"], answer["content"])

    async def hear(self, answers: dict[str, Any]) -> None:
        """Take the person's answers, by question."""
        async with self._answered:
            self._answers |= answers
            self._answered.notify_all()

    def cancel(self) -> None:
        """End the call."""
        if self.task is not None:
            self.task.cancel()
