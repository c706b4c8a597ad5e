"""The HTTP API with which admins put documents into libraries and delete them.

The account is checked before anything else of the request.
"""

import json
import logging
from dataclasses import asdict
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from library_search.handlers.ingest_document import IngestDocument
from library_search.http.routing import RETRY_AFTER_SECONDS
from library_search.model import is_document_id
from library_search.store.documents import Documents, Place
from pallas_contracts.errors import NotFound, PallasError, Rejected
from pallas_credentials.accounts import Account
from pallas_runtime.http.bodies import TooLarge, read_body
from pallas_runtime.http.problems import problem, problem_of

log = logging.getLogger(__name__)

DOCUMENTS = "/admin/api/documents"
LONGEST_UID, LONGEST_COLLECTION, LONGEST_PATH = 64, 200, 1000


class Admin:
    """The ASGI application below `/admin/`."""

    def __init__(self, account: Account, ingest: IngestDocument, documents: Documents, max_document_bytes: int) -> None:
        self._account = account
        self._ingest = ingest
        self._documents = documents
        self._max_bytes = max_document_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            answer = await self._answer(scope, receive)
        except TooLarge as error:
            answer = problem(413, error.message, error.code)
        except PallasError as error:
            answer = problem_of(error, retry_after=RETRY_AFTER_SECONDS)
        await answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        address, _ = scope.get("client") or ("", 0)
        if not await self._account.lets_in(Headers(scope=scope).get("authorization"), address):
            log.warning("refused a request with a wrong name or password", extra={"account": "admin"})
            answer = problem(401, "the name and password of the account `admin` are required", "unauthorized")
            answer.headers["www-authenticate"] = 'Basic realm="pallas", charset="UTF-8"'
            return answer
        match scope["method"], scope["path"].removeprefix(DOCUMENTS).split("/"):
            case "PUT", ["", library]:
                return await self._put(_checked("library", library, LONGEST_UID), scope, receive)
            case "DELETE", ["", library, document]:
                return await self._remove(_checked("library", library, LONGEST_UID), document)
            case _, ["", _] | ["", _, _]:
                return problem(405, "method not allowed", "method")
            case _:
                return problem(404, "no such route", "not_found")

    async def _put(self, library: str, scope: Scope, receive: Receive) -> Response:
        try:
            asked = parse_qs(scope["query_string"].decode("ascii"), errors="strict", max_num_fields=10)
        except ValueError as error:
            raise Rejected("the query string is not valid", code="invalid") from error
        collection = _checked("collection", asked.get("collection", ["default"])[-1], LONGEST_COLLECTION)
        path = _checked("path", asked.get("path", [""])[-1], LONGEST_PATH)
        found = await self._ingest.find_library(library)
        content = await read_body(scope, receive, self._max_bytes)
        done = await self._ingest.ingest(Place(found.uid, found.identity, collection, path), content)
        return Response(
            json.dumps(asdict(done)), 201 if done.status == "created" else 200, media_type="application/json"
        )

    async def _remove(self, library: str, document: str) -> Response:
        if not is_document_id(document) or not await self._documents.remove(library, document):
            raise NotFound("no such document", code="no_document")
        return Response(status_code=204)


def _checked(field: str, value: str, longest: int) -> str:
    """Check a name: one line, not empty, not too long.

    Raises:
        Rejected: naming the field.
    """
    if not value.strip():
        raise Rejected(f"{field}: is required", field=field)
    if len(value) > longest:
        raise Rejected(f"{field}: must have at most {longest} characters", field=field)
    if not value.isprintable():
        raise Rejected(f"{field}: must be one line of printable characters", field=field)
    return value
