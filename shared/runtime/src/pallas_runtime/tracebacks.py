"""Tracebacks for logs: the types of the exceptions and where they were raised, without their texts.

The text of a foreign exception (of pydantic, a provider, a function) may quote content. Only the text of a
`PallasError` never does.
"""

import traceback
from collections.abc import Iterator
from typing import TypeIs

from pallas_contracts.errors import PallasError

_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"


def discreet_traceback(error: BaseException) -> str:
    """The traceback of `error`, its causes and its group, as Python prints it but without their texts."""
    return "\n".join(_lines(error, set()))


def _lines(error: BaseException, seen: set[int]) -> Iterator[str]:
    seen.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and id(before) not in seen:
        yield from _lines(before, seen)
        yield from ("", _CAUSE if error.__cause__ is not None else _CONTEXT, "")
    if error.__traceback__ is not None:
        yield "Traceback (most recent call last):"
        yield "".join(traceback.format_tb(error.__traceback__)).rstrip("\n")
    yield _name(error)
    for number, inner in enumerate(error.exceptions if _is_group(error) else (), 1):
        if id(inner) not in seen:
            yield from (f"  {line}" for line in (f"{number}:", *_lines(inner, seen)))


def _is_group(error: BaseException) -> TypeIs[BaseExceptionGroup[BaseException]]:
    return isinstance(error, BaseExceptionGroup)


def _name(error: BaseException) -> str:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{name}: {error.message}" if isinstance(error, PallasError) else name
