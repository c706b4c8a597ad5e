"""Answers: JSON, and errors as the engine has them, `{error, message, requestId?}`."""

from collections.abc import Mapping

from pydantic_core import to_json
from starlette.responses import Response

from pallas_contracts.errors import PallasError

_STATUS: Mapping[str, tuple[int, str]] = {
    "rejected": (400, "InvalidRequest"),
    "not_found": (404, "NotFound"),
    "denied": (403, "Forbidden"),
    "conflict": (409, "Conflict"),
    "unavailable": (503, "Unavailable"),
    "internal": (500, "InternalError"),
}
"""Status and word of each kind of error."""

_WORDS: Mapping[str, str] = {
    "AliasConflict": "AliasConflict",
    "resume_in_progress": "ResumeInProgress",
    "faulty_program": "CompilationError",
}
"""Words of the engine for some codes."""


class Refused(Exception):
    """A request is answered with an error."""

    def __init__(self, status: int, error: str, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.error = error
        self.message = message
        self.headers = {} if retry_after is None else {"retry-after": str(retry_after)}


def answer(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(encoded(document), status, headers, "application/json")


def encoded(document: object) -> bytes:
    """A document as JSON."""
    return to_json(document)


def picture(svg: str) -> Response:
    """An SVG picture. It has no scripts; a browser that opens it runs none."""
    headers = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
    return Response(svg, headers=headers, media_type="image/svg+xml")


def refusal(refused: Refused, request_id: str | None) -> Response:
    """An error as an answer."""
    said = {"error": refused.error, "message": refused.message}
    named = said if request_id is None else said | {"requestId": request_id}
    return answer(named, refused.status, refused.headers)


def refused(error: PallasError) -> Refused:
    """An error of ours as one of the engine's."""
    status, word = _STATUS[error.kind]
    retry_after = 1 if error.kind == "unavailable" else None
    return Refused(status, _WORDS.get(error.code, word), error.message, retry_after=retry_after)
