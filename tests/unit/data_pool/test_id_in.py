"""An answer that is not JSON fails its call at once if its id can be seen."""

import pytest

from data_pool.reaching.socket_calls import id_in


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc": "2.0", "id": 7, "result": NaN}',
        '{"jsonrpc": "2.0", "id": 7, "result": ' + "9" * 5000 + "}",
        '{"result": ' + "9" * 5000 + ', "id": 7}\n',
        '{"id":7,"result":' + "[" * 200_000 + "]" * 200_000 + "}",
        '{"jsonrpc":"2.0","id":7,"result":{"a":',
        '{"jsonrpc":"2.0","result":[' + '{"id":1,"a":"]\\"}"},' * 60_000 + '{}],"id":7,"meta":{"id":2}}',
        '{"meta":{"a":["id"]},"id": 7 ,"result":[' + "1," * 300_000 + "1]}",
    ],
    ids=["NaN", "digits", "digits before the id", "levels", "cut off", "behind many", "neither first nor last"],
)
def test_the_id_is_seen(text: str) -> None:
    assert id_in(text) == 7


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"result": {"id": 7}',
        '{"a": "\\", \\"id\\": 7, ',
        "[" * 200_000,
        '{"result": 1}',
        '{"result":[' + '{"id":7},' * 100_000 + "1]}",
    ],
    ids=["nothing", "cut off", "inside", "in a text", "levels", "without", "inside of many"],
)
def test_no_id_is_seen_where_there_is_none(text: str) -> None:
    assert id_in(text) is None
