"""`/rpc` over HTTP: checks a request as the MCP endpoints do, and serves it while its caller is connected."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from mcp.server.transport_security import TransportSecurityMiddleware
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from agent_gateway.answers.results import Headers as Fields
from agent_gateway.answers.results import refuse, refuse_caller
from agent_gateway.caller import Callers, identify
from agent_gateway.http.signatures import SIGNATURE, Signatures
from agent_gateway.rpc.agents import RpcCaller
from agent_gateway.rpc.methods import Methods
from pallas_contracts.errors import Denied, PallasError
from pallas_contracts.turns import Principal
from pallas_runtime.front import of_caller
from pallas_runtime.http.bearers import bearer_of
from pallas_runtime.http.bodies import TooLarge, declares_more, disconnected, read_body, while_connected

_JSON = re.compile(r"application/(json|json-rpc|jsonrequest|[\w.+-]+\+json)", re.IGNORECASE)
_JSON_FIELD = (b"content-type", b"application/json")


class _Refused(Exception):
    """An HTTP error."""

    def __init__(self, status: int, message: str, fields: Fields = ()) -> None:
        super().__init__(message)
        self.status, self.message, self.fields = status, message, fields


@dataclass(frozen=True)
class RpcHttp:
    """Serves `/rpc` and `/teams/{team}/rpc`."""

    methods: Methods
    callers: Callers
    signatures: Signatures
    security: TransportSecurityMiddleware
    max_body_bytes: int

    async def serve(self, team: str | None, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; `team` is that of the path."""
        try:
            await self._check(scope)
            bearer = self._bearer(scope)
            body = await self._body(scope, receive, bearer)
            with of_caller(scope["headers"], b""):
                caller = await self._caller(team, scope, bearer, body)
                await while_connected(self._answer(body, caller, send), partial(disconnected, receive))
        except _Refused as error:
            await refuse(send, error.status, error.message, error.fields, rpc=True)
        except PallasError as error:
            await refuse_caller(send, error, rpc=True)

    async def _check(self, scope: Scope) -> None:
        """Check the headers.

        Raises:
            _Refused: they are not those of a request that is served here.
        """
        refusal = await self.security.validate_request(Request(scope))
        if refusal is not None:
            raise _Refused(refusal.status_code, bytes(refusal.body).decode())
        if scope["method"] != "POST":
            raise _Refused(405, "Only POST is served here.", ((b"allow", b"POST"),))
        media_type = Headers(scope=scope).get("content-type", "").partition(";")[0].strip()
        if _JSON.fullmatch(media_type) is None:
            raise _Refused(415, "The content type must be application/json.")
        if declares_more(scope, self.max_body_bytes):
            raise self._too_large()

    async def _body(self, scope: Scope, receive: Receive, bearer: str | None) -> bytes:
        before = partial(self.callers.identify_caller, bearer) if bearer is not None else None
        try:
            return await read_body(scope, receive, self.max_body_bytes, before=before)
        except TooLarge:
            raise self._too_large() from None

    def _too_large(self) -> _Refused:
        return _Refused(413, f"The body is larger than {self.max_body_bytes} bytes.")

    def _bearer(self, scope: Scope) -> str | None:
        """The bearer, if one is needed. Of a signed request the key is checked.

        Raises:
            Denied: the bearer is missing or malformed, or the key unknown.
        """
        if not self._is_signed(scope):
            return self.callers.check_bearer(bearer_of(scope["headers"]))
        self._counted(lambda: self.signatures.key_of(scope))
        return None

    def _is_signed(self, scope: Scope) -> bool:
        return self.callers.mode != "off" and self.signatures.is_signed(scope)

    async def _caller(self, team: str | None, scope: Scope, bearer: str | None, body: bytes) -> RpcCaller:
        """Identify the caller by signature, bearer or address.

        Raises:
            PallasError: it is refused, or cannot be identified now.
        """
        signed = self._counted(lambda: self.signatures.verify(scope, body)) if self._is_signed(scope) else None
        known: Principal | None = signed.principal if signed is not None else None
        if bearer is not None:
            known = await self.callers.identify_caller(bearer, uses_up=_may_execute(body))
        return RpcCaller(
            identify(scope, known),
            self.signatures.address(scope),
            team,
            Headers(scope=scope).get("idempotency-key"),
            signed.digest if signed is not None else None,
        )

    def _counted[T](self, check: Callable[[], T]) -> T:
        """Check a signature, and count a refusal."""
        try:
            return check()
        except Denied:
            self.callers.failures.labels(SIGNATURE).inc()
            raise

    async def _answer(self, body: bytes, caller: RpcCaller, send: Send) -> None:
        answer = await self.methods.serve(body, caller)
        content = answer or b""
        fields = [(b"content-length", str(len(content)).encode()), *([_JSON_FIELD] if answer is not None else [])]
        await send({"type": "http.response.start", "status": 202 if answer is None else 200, "headers": fields})
        await send({"type": "http.response.body", "body": content})


def _may_execute(body: bytes) -> bool:
    """Whether a body may have an `agent.execute`; the word may be escaped."""
    return b"execute" in body or b"\\u" in body
