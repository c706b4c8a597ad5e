"""Coder's REST API: requests to it, and what its refusals mean."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, TypeAdapter

from fleet.coder.model import Listed, Text
from fleet.reaching.http import Answer, Http
from fleet.reaching.peer import Peer
from fleet.reaching.reading import read_json, read_part
from pallas_contracts.errors import Conflict, NotFound, Rejected, Unavailable

CODE = "coder_unavailable"
ABSENT = frozenset({400, 404, 410})
"""What Coder answers for an id that it does not know, or does not know any more."""

_LONGEST = 1000


class _Fault(BaseModel):
    field: Text = ""
    detail: Text = ""


class _Refusal(BaseModel):
    message: Text = ""
    detail: Text = ""
    validations: Listed[_Fault] = ()


_REFUSAL = TypeAdapter(_Refusal)


@dataclass(frozen=True, slots=True)
class Rest:
    """Requests to the Coder of `http`. Paths begin behind its base URL, without a slash."""

    http: Http

    @property
    def peer(self) -> Peer:
        """Coder, as errors name it.

        Raises:
            Unavailable: there is no Coder.
        """
        base = self.http.base
        if base is None or not self.http.has_token:
            missing = "PALLAS_CODER_URL" if base is None else "PALLAS_CODER_TOKEN"
            raise Unavailable(f"Coder is not configured: {missing} is not set.", code=CODE, reason="not_configured")
        return Peer("Coder", CODE)

    @asynccontextmanager
    async def within(self) -> AsyncGenerator[None]:
        """Bound the time of several requests together.

        Raises:
            Unavailable: they take longer.
        """
        seconds = self.http.limits.call
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            raise self.peer.away("timeout", f"no answer within {seconds:g} s") from error

    async def get[T](
        self,
        path: str,
        kind: TypeAdapter[T],
        *,
        absent: frozenset[int] = ABSENT,
        params: Mapping[str, str | int] | None = None,
    ) -> T | None:
        """What Coder has at a path; None: it answers with a status in `absent`.

        Raises:
            Unavailable: Coder does not answer, or not with this.
        """
        answer = await self.send("GET", path, params=params)
        if answer.status in absent:
            return None
        if answer.status != 200:
            raise self.refused(answer)
        return read_json(self.peer, answer, kind)

    async def have[T](self, path: str, kind: TypeAdapter[T], params: Mapping[str, str | int] | None = None) -> T:
        """What Coder has at a path where every Coder has something.

        Raises:
            Unavailable: Coder does not answer, or not with this.
        """
        found = await self.get(path, kind, absent=frozenset(), params=params)
        assert found is not None
        return found

    async def post[T](self, path: str, body: Mapping[str, Any], kind: TypeAdapter[T], *, taken: str) -> T:
        """Make something. `taken` is the code of the error when something is in the way.

        Raises:
            Conflict, NotFound, Rejected: Coder refuses it, with Coder's reasons.
            Unavailable: Coder does not answer, or not with this.
        """
        answer = await self.send("POST", path, body=body)
        if answer.status in (200, 201):
            return read_json(self.peer, answer, kind)
        refusal = _refusal(answer)
        if answer.status == 409:
            raise Conflict(f"Coder refuses: {refusal.message or 'there is one already'}", code=taken)
        if answer.status in (404, 405, 410):
            raise NotFound(f"Coder refuses: {refusal.message or 'there is no such thing'}")
        if answer.status in (400, 422):
            faults = [fault.model_dump() for fault in refusal.validations]
            why = " ".join([refusal.message, *(f"{fault.field}: {fault.detail}" for fault in refusal.validations)])
            raise Rejected(f"Coder refuses: {why[:_LONGEST].strip()}", code="coder_refuses", validations=faults)
        raise self.refused(answer)

    async def send(
        self, method: str, path: str, *, params: Mapping[str, str | int] | None = None, body: Any = None
    ) -> Answer:
        """Send a request; every status is an answer.

        Raises:
            Unavailable: there is none.
        """
        peer = self.peer
        return await self.http.send(peer, method, self.url(path), params=params, body=body)

    def url(self, path: str) -> httpx2.URL:
        """The address of a path."""
        assert self.http.base is not None
        return httpx2.URL(f"{self.http.base}{path}")

    def refused(self, answer: Answer) -> Unavailable:
        """The error for an answer that is a refusal."""
        status = answer.status
        if status == 401 or (status == 403 and not _refusal(answer).message):
            return self.peer.unusable(
                "unauthorized", f"answers with HTTP status {status}: it refuses our token", status=status
            )
        if status == 403:
            why = f"forbids it (HTTP status 403): {_refusal(answer).message[:_LONGEST].rstrip('.')}"
            return self.peer.unusable("unauthorized", why, status=status)
        if 300 <= status < 400:
            why = f"redirects (HTTP status {status}); PALLAS_CODER_URL has to be the address that it redirects to"
            return self.peer.unusable("redirect", why, status=status)
        if status == 429:
            until = "for now" if answer.retry_after is None else f"for {answer.retry_after} s"
            return self.peer.unusable("too_many", f"refuses more requests {until} (HTTP status 429)", status=status)
        return self.peer.unusable("status", f"answers with HTTP status {status}", status=status)


def segment(text: str) -> str:
    """A part of a path."""
    return quote(text, safe="")


def _refusal(answer: Answer) -> _Refusal:
    return read_part(_REFUSAL, answer.body) or _Refusal()
