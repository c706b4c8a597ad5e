"""Makes commands of functions that do the work.

A function that takes `bus` works at a broker: its command has the options that name one. A parameter that is `Made` of
other options has these in its place.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import Parameter, Signature, iscoroutine, signature
from typing import Annotated, Any, get_args

import typer

from pallas_cli.broker import ASKING, DEFAULT_DATA, AsJson, Data, NatsUrl, interruptible, run_on
from pallas_cli.options import Page, Yes, confirm, parameter


@dataclass(frozen=True, slots=True)
class Made:
    """In the annotation of a parameter: what `by` makes of options, its own parameters, and `then` of that.

    `defaults` replace those of its parameters.
    """

    by: Callable[..., Any]
    then: Callable[[Any], Any] = lambda made: made
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def options(self) -> Iterator[Parameter]:
        """The options."""
        for it in signature(self.by).parameters.values():
            yield it.replace(default=self.defaults[it.name]) if it.name in self.defaults else it

    def value(self, given: Mapping[str, Any]) -> Any:
        """The value of the parameter."""
        return self.then(self.by(**{option.name: given[option.name] for option in self.options}))


Paged = Annotated[Page, Made(Page)]
"""The part of a list that is wanted, by `--limit` and `--after`."""

_LAST = {
    "nats": parameter("nats", NatsUrl),
    "data": parameter("data", Data, DEFAULT_DATA),
    "as_json": parameter("as_json", AsJson, default=False),
}
"""Options of many commands, at the end of their help."""

_YES = parameter("yes", Yes, default=False)


def command[F: Callable[..., Any]](
    app: typer.Typer, name: str = "", *, sure: str = "", doing: str | None = ASKING, **settings: Any
) -> Callable[[F], F]:
    """Add a function to `app` as a command. The function itself stays as it is.

    With `sure`, a sentence with `{names}` of what the function gets, the user has to confirm first. `doing` is shown
    when the broker takes long; None: the function itself shows what it does, or asks.
    """

    def add(work: F) -> F:
        own = signature(work).parameters
        made = {it: maker for it, each in own.items() for maker in get_args(each.annotation) if isinstance(maker, Made)}
        at_broker = "bus" in own

        def run(**given: Any) -> None:
            values = {it: given[it] for it in own if it in given}
            values |= {it: maker.value(given) for it, maker in made.items()}
            if sure:
                confirm(sure.format_map(values), yes=given["yes"], as_json=given["as_json"])
            if at_broker:
                run_on(given["nats"], given["data"], partial(work, **values), doing=doing)
            else:
                with interruptible():
                    if iscoroutine(ends := work(**values)):
                        asyncio.run(ends)

        options = [option for it, each in own.items() for option in (made[it].options if it in made else [each])]
        named = {option.name: option.replace(kind=Parameter.KEYWORD_ONLY) for option in options if option.name != "bus"}
        wanted = [it for it in _LAST if it in named or (at_broker and it != "as_json")]
        last = [_own_or(_LAST[it], named.pop(it, _LAST[it])) for it in wanted]
        asked = [_YES] if sure else []
        run.__dict__["__signature__"] = Signature([*named.values(), *asked, *last])
        app.command(name or work.__name__, help=work.__doc__, **settings)(run)
        return work

    return add


def _own_or(common: Parameter, own: Parameter) -> Parameter:
    """A common option, or that of the function if it says more than a type."""
    return own if get_args(own.annotation) else common
