"""JSON of others into models."""

from pydantic import TypeAdapter, ValidationError

from fleet.reaching.http import Answer
from fleet.reaching.peer import Peer


def read_json[T](peer: Peer, answer: Answer, kind: TypeAdapter[T]) -> T:
    """The body of an answer.

    Raises:
        Unavailable: it is no JSON, or not of this kind.
    """
    try:
        return kind.validate_json(answer.body)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        if fault["type"] == "json_invalid":
            what = "HTML" if "html" in answer.kind.lower() else "something that is not JSON"
            raise peer.unusable("not_json", f"answers with {what}", status=answer.status) from None
        place = ".".join(str(part) for part in fault["loc"])[:200]
        why = f"answers with what cannot be read ({place or 'the whole'}: {fault['msg'][:200]})"
        raise peer.unusable("unreadable", why, status=answer.status) from None
    except (OverflowError, RecursionError):
        raise peer.unusable("unreadable", "answers with what cannot be read", status=answer.status) from None


def read_part[T](kind: TypeAdapter[T], text: str | bytes) -> T | None:
    """What a text says; None: it cannot be read."""
    try:
        return kind.validate_json(text)
    except (ValidationError, OverflowError, RecursionError, UnicodeEncodeError):
        return None
