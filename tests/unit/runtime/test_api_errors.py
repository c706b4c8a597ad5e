"""What is said about bad input: the field, then the reason."""

from typing import Annotated

import httpx
import pytest
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from pallas_runtime.api_errors import add_error_handlers


class Order(BaseModel):
    """A body."""

    model_config = ConfigDict(extra="forbid")

    count: Annotated[int, Field(ge=1)]
    name: Annotated[str, Field(max_length=3)] = ""


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("{", "body: is not JSON"),
        ("", "body: is missing"),
        ("{}", "count: is missing"),
        ('{"count": 0}', "count: must be greater than or equal to 1"),
        ('{"count": 1, "name": "long"}', "name: must have at most 3 characters"),
        ('{"count": 1, "size": 2}', "size: is not a known field"),
    ],
)
async def test_the_field_begins_a_sentence_that_its_reason_ends(body: str, error: str) -> None:
    app = FastAPI()
    add_error_handlers(app)

    @app.post("/orders")
    async def order(given: Order) -> int:
        return given.count

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a.test") as http:
        answer = await http.post("/orders", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]) == (422, error)
