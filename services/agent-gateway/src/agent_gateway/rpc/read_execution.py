"""The parameters of `agent.execute` (`data-agent-pool.md`, section 3.1)."""

import re
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from agent_gateway.mcp.idempotency import MAX_LENGTH
from pallas_contracts.agents import JsonObject
from pallas_jsonrpc.errors import INVALID_PARAMS, RpcError

EXECUTE = "agent.execute"

LONGEST_ID = 256

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _moment(text: str) -> str:
    if _RFC_3339.fullmatch(text) is None:
        raise ValueError("must be a time as in RFC 3339, such as 2025-05-28T15:00:00Z")
    datetime.fromisoformat(text.upper())
    return text


type _Id = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_ID)]


class _Params(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class Meta(_Params):
    """`meta` of a call. Unknown fields are ignored.

    Pallas adds `idempotency_key`, `cancel` (of the turn of that key) and `timeout` (seconds).
    """

    task_id: _Id
    timestamp: Annotated[str, AfterValidator(_moment)] | None = None
    idempotency_key: Annotated[str, StringConstraints(min_length=1, max_length=MAX_LENGTH)] | None = None
    cancel: bool = False
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class Execution(_Params):
    """A call of a function of an agent."""

    agent_id: _Id
    function: _Id
    input: dict[str, Any]
    meta: Meta


def read_execution(params: JsonObject) -> Execution:
    """The checked parameters.

    Raises:
        RpcError: `Invalid params`; `data.faults` names each field with the reason, without its value.
    """
    try:
        return Execution.model_validate(params)
    except ValidationError as error:
        faults = [_fault(each["loc"], each["msg"]) for each in error.errors(include_input=False, include_url=False)]
        sentence = "; ".join(f"{fault['field']}: {fault['reason']}" for fault in faults)
        named: JsonObject = {"agent_id": params["agent_id"]} if isinstance(params.get("agent_id"), str) else {}
        data = {**named, "faults": faults}
        raise RpcError(INVALID_PARAMS, f"Invalid params: {sentence}", data, meta={"status": "error"}) from None


def _fault(where: tuple[int | str, ...], reason: str) -> dict[str, str]:
    return {"field": ".".join(map(str, where)), "reason": reason.removeprefix("Value error, ")}
