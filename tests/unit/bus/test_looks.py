"""A look that fails is taken again: what was missed is found when the broker answers."""

import pytest
from tests.waiting import soon

from pallas_bus.looks import keep_looking, look_now
from pallas_contracts.errors import Unavailable


class _Broker:
    """One that does not answer the first questions; the question after the last answer that counts fails for good."""

    def __init__(self, refuses: int, answers: int) -> None:
        self.refuses, self.answers = refuses, answers

    async def look(self) -> None:
        if self.refuses:
            self.refuses -= 1
            raise Unavailable("away")
        if not self.answers:
            raise KeyError("enough")
        self.answers -= 1


async def test_a_look_is_taken_until_the_broker_answers() -> None:
    broker = _Broker(refuses=2, answers=1)
    await soon(look_now(broker.look))
    assert (broker.refuses, broker.answers) == (0, 0)


async def test_looks_go_on_after_one_that_failed() -> None:
    broker = _Broker(refuses=1, answers=3)
    with pytest.raises(KeyError):
        await soon(keep_looking(broker.look, every=0.01))
    assert (broker.refuses, broker.answers) == (0, 0)
