"""Types as the engine writes them in its HTTP API: `CList(CInt)`."""

from collections.abc import Iterable, Mapping

from pallas_cst import types as t
from pallas_cst.signatures import BadSignature, read_type


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
