"""Answers: JSON, and errors as the engine has them, `{error, message, requestId?}`."""

from collections.abc import Iterable, Mapping

from pydantic_core import to_json
from starlette.responses import Response

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import PallasError
from pallas_cst import types as t
from pallas_cst.signatures import BadSignature, read_type

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


def engine_type(kind: t.Type) -> str:
    """A type as the engine writes it."""
    match kind:
        case t.Primitive(name):
            return f"C{name}"
        case t.ListOf(item):
            return f"CList({engine_type(item)})"
        case t.SeqOf(item):
            return f"CSeq({engine_type(item)})"
        case t.MapOf(key, value):
            return f"CMap({engine_type(key)},{engine_type(value)})"
        case t.OptionalOf(inner):
            return f"COptional({engine_type(inner)})"
        case t.Record(fields):
            return f"CProduct({_map(fields.items())})"
        case t.Union(members):
            return f"CUnion({_map((str(member), member) for member in sorted(members, key=str))})"
        case t.Function(parameters, returns):
            return f"CFunction({', '.join(map(engine_type, (*parameters, returns)))})"


def engine_types(kinds: Mapping[str, t.Type]) -> dict[str, str]:
    """Types by name."""
    return {name: engine_type(kind) for name, kind in kinds.items()}


def engine_types_of(texts: Mapping[str, str]) -> dict[str, str]:
    """Types that are written in the language. One that cannot be read stays as it is."""
    return {name: _read(text) for name, text in texts.items()}


def engine_outputs(kind: t.Type) -> dict[str, str]:
    """The outputs of a function: the fields of a record; any other value is `out`, as the engine names it."""
    return engine_types(kind.fields) if isinstance(kind, t.Record) else {"out": engine_type(kind)}


def _map(entries: Iterable[tuple[str, t.Type]]) -> str:
    return f"Map({', '.join(f'{name} -> {engine_type(kind)}' for name, kind in entries)})"


def _read(text: str) -> str:
    try:
        return engine_type(read_type(text))
    except BadSignature:
        return text


_PREFIX = "sha256:"
_FIELDS = ("structuralHash", "syntacticHash", "left", "right")


def bare(document: JsonObject) -> JsonObject:
    """A document whose own hashes, and those of its versions, have no prefix."""
    changed = {name: document[name].removeprefix(_PREFIX) for name in _FIELDS if name in document}
    if "versions" in document:
        changed["versions"] = [bare(each) for each in document["versions"]]
    return document | changed
