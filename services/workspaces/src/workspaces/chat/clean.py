"""Text of agents as Postgres can store it: without NUL and without halves of surrogate pairs."""

from typing import Any, cast


def clean_text(text: str) -> str:
    """The text with U+FFFD for what cannot be stored."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def clean(value: Any) -> Any:
    """A JSON value with such texts only."""
    match value:
        case str():
            return clean_text(value)
        case dict():
            return {clean_text(str(name)): clean(one) for name, one in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return [clean(one) for one in cast("list[Any]", value)]
        case _:
            return value
