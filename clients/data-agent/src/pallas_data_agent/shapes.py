"""Type hints as the pool's shorthand, and arguments as the hints want them.

The shorthand has words (`string`, `int`, `float`, `bool`, `null`, `any`, `object`), `list[T]`, `dict[string, T]`,
`optional[T]`, `A | B`, and objects (`{name: T}`). Objects are JSON objects where possible, and text inside of others.
"""

import dataclasses
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints, is_typeddict

Json = dict[str, Any] | list[Any] | str | int | float | bool | None
Shape = str | dict[str, Any]

_WORDS: dict[object, str] = {
    str: "string",
    int: "int",
    float: "float",
    bool: "bool",
    NoneType: "null",
    Any: "any",
    object: "any",
    list: "list[any]",
    dict: "object",
}


class InvalidInput(Exception):
    """An argument is missing or not known. `field` is its path."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class Field(NamedTuple):
    """A parameter of a function, or a member of an object."""

    hint: Any
    required: bool


Fields = Mapping[str, Field]


def parameters_of(function: Callable[..., object]) -> tuple[Fields, bool]:
    """The parameters of a function, and whether it takes any others.

    Raises:
        TypeError: it has parameters that cannot be given by name.
    """
    hints, found, open_ = get_type_hints(function), dict[str, Field](), False
    for name, parameter in signature(function).parameters.items():
        if parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL):
            raise TypeError(f"the parameter {name!r} cannot be given by name")
        if parameter.kind is Parameter.VAR_KEYWORD:
            open_ = True
        else:
            found[name] = Field(hints.get(name, Any), parameter.default is Parameter.empty)
    return found, open_


def result_of(function: Callable[..., object]) -> Any:
    """The hint of what a function returns."""
    return get_type_hints(function).get("return", Any)


def shape_of(hint: Any) -> Shape:
    """The shape of a type.

    Raises:
        TypeError: the shorthand has no word for it.
    """
    fields = fields_of(hint)
    return _text(hint) if fields is None else object_shape(fields)


def object_shape(fields: Fields) -> dict[str, Shape]:
    """The shape of an object with these fields."""
    return {name: shape_of(each.hint) if each.required else _optional(each.hint) for name, each in fields.items()}


def fields_of(hint: Any) -> Fields | None:
    """The fields of a TypedDict or dataclass; None for every other type."""
    if is_typeddict(hint):
        return {name: Field(each, name in hint.__required_keys__) for name, each in get_type_hints(hint).items()}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        return {each.name: Field(hints[each.name], _has_no_default(each)) for each in dataclasses.fields(hint)}
    return None


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _optional(hint: Any) -> str:
    arms = [arm for arm in get_args(hint) if arm is not NoneType] if _is_union(hint) else [hint]
    return f"optional[{' | '.join(map(_text, arms))}]"


def _text(hint: Any) -> str:
    if (fields := fields_of(hint)) is not None:
        members = ((name, _text(each.hint) if each.required else _optional(each.hint)) for name, each in fields.items())
        return "{" + ", ".join(f"{name}: {text}" for name, text in members) + "}"
    args = get_args(hint)
    if _is_union(hint):
        return " | ".join(map(_text, args))
    if get_origin(hint) is list:
        return f"list[{_text(args[0])}]"
    if get_origin(hint) is dict and args[0] is str:
        return f"dict[string, {_text(args[1])}]"
    if hint in _WORDS:
        return _WORDS[hint]
    raise TypeError(f"there is no word for the type {hint!r}: pass input_schema or output_schema")


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def fit(fields: Fields, given: Json, *, path: str = "", open_: bool = False) -> dict[str, Any]:
    """The arguments for these fields: dataclasses are made of objects.

    Raises:
        InvalidInput: one is missing or not known.
    """
    if not isinstance(given, dict):
        raise InvalidInput(path or "input", "must be an object")
    inside = f"{path}." if path else ""
    if missing := [name for name, each in fields.items() if each.required and name not in given]:
        raise InvalidInput(inside + missing[0], "is missing")
    if not open_ and (unknown := given.keys() - fields.keys()):
        raise InvalidInput(inside + min(unknown), "is not known")
    hints = {name: each.hint for name, each in fields.items()}
    return {name: _value(hints.get(name, Any), value, inside + name) for name, value in given.items()}


def _value(hint: Any, given: Json, path: str) -> Any:
    args = get_args(hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return hint(**fit(fields_of(hint) or {}, given, path=path))
    if _is_union(hint):
        return _value(next((arm for arm in args if _is_made_of(arm, given)), Any), given, path)
    match given:
        case list() if get_origin(hint) is list:
            return [_value(args[0], each, f"{path}[{number}]") for number, each in enumerate(given)]
        case dict() if get_origin(hint) is dict:
            return {name: _value(args[1], each, f"{path}.{name}") for name, each in given.items()}
        case _:
            return given


def _is_made_of(hint: Any, given: Json) -> bool:
    if isinstance(given, dict):
        return dataclasses.is_dataclass(hint) or get_origin(hint) is dict
    return isinstance(given, list) and get_origin(hint) is list
