"""Whose it is what a caller makes."""

import pytest

from pallas_contracts.turns import API_KEY_ID, Principal

KEY = f"{API_KEY_ID}0123abcd"


@pytest.mark.parametrize(
    ("caller", "owner"),
    [
        (Principal(id="10.0.0.1"), "peer:10.0.0.1"),
        (Principal(type="user", id="ann", name="Ann"), "user:ann"),
        (Principal(type="team", id="t-1"), "team:t-1"),
        (Principal(type="turn", id="x"), "turn:x"),
        (Principal(type="token", id="tok_1"), "token:tok_1"),
        (Principal(type="token", id="tok_1", user="ann"), "user:ann"),
        (Principal(type="token", id="tok_2", user="ann"), "user:ann"),
        (Principal(type="token", id=KEY), f"token:{KEY}"),
        (Principal(type="token", id=KEY, user="ann"), f"token:{KEY}/ann"),
        (Principal(type="token", id=KEY, user="ben"), f"token:{KEY}/ben"),
    ],
)
def test_what_a_caller_makes_is_its_users_if_it_does_not_name_the_user_itself(caller: Principal, owner: str) -> None:
    assert caller.owner == owner
