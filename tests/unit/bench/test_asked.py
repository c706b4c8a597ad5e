"""Questions over the broker: which are asked next, and which answers are right."""

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.bench.asked import Asked, NothingLeft

ASKED = Asked("nats://nowhere", "a.subject", ["a", "b", "c"], '"cache":"hit"')


def answer(data: bytes) -> Msg:
    return Msg(Client(), subject=ASKED.subject, data=data)


def test_questions_that_are_asked_once_run_out() -> None:
    following = ASKED.row(once=True)
    assert [following(), following(), following()] == [b"a", b"b", b"c"]
    with pytest.raises(NothingLeft):
        following()


def test_repeated_questions_start_over_after_the_last() -> None:
    following = ASKED.row(once=False)
    assert [following() for _ in range(5)] == [b"a", b"b", b"c", b"a", b"b"]


def test_an_answer_without_the_expected_text_is_a_fault() -> None:
    assert ASKED.fault_of(answer(b'{"cache":"hit"}')) is None
    assert "miss" in str(ASKED.fault_of(answer(b'{"cache":"miss"}')))
