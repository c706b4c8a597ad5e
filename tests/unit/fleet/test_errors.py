"""Errors as the contract has them."""

import json

import pytest
from tests.requirements import requirement
from tests.unit.fleet.contract import TEXT, block

from fleet.agent.tools import error_object, error_result
from pallas_contracts.errors import BadGateway, Conflict, NotFound, PallasError, Rejected, Unavailable


@requirement("F-common-2")
@pytest.mark.parametrize(
    ("error", "word", "status", "rpc"),
    [
        (Rejected("no"), "bad_request", 400, -32602),
        (NotFound("no"), "not_found", 404, -32602),
        (Conflict("no"), "conflict", 409, -32000),
        (Unavailable("no"), "service_unavailable", 503, -32001),
        (BadGateway("no"), "service_unavailable", 503, -32001),
    ],
)
def test_each_kind_has_its_word_and_status(error: PallasError, word: str, status: int, rpc: int) -> None:
    told = error_object(error)
    assert (told["error"], told["message"], told["details"]["status"]) == (word, "no", status)
    assert told.keys() == block(TEXT.partition("### Error Response Format")[2]).keys()
    result = error_result(error)
    assert (result.is_error, result.structured) == (True, None)
    [content] = result.content
    assert json.loads(content["text"]) == told
    assert result.meta is not None
    assert result.meta["pallas/error"] == told
    assert result.meta["pallas/rpc-error"] == {"code": rpc, "message": "no", "data": told}


def test_facts_are_details_and_do_not_hide_the_status() -> None:
    error = Unavailable("Coder answers with HTTP status 502.", code="coder_unavailable", status=502, reason="status")
    assert error_object(error)["details"] == {
        "status": 503,
        "code": "coder_unavailable",
        "peer_status": 502,
        "reason": "status",
    }
