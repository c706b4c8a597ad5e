"""Runs a command with a connection to the broker."""

import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pallas_cli.contexts import kept_in, leave_out, setting
from pallas_cli.kept_addresses import find_address, help_of
from pallas_cli.refused import NotReachable, Refused, WrongUsage, where_to_look
from pallas_cli.waiting import shown

if TYPE_CHECKING:
    from pallas_bus.access import Access
    from pallas_bus.connection import Bus
    from pallas_contracts.errors import Unavailable

NatsUrl = Annotated[
    str | None, typer.Option("--nats", envvar="PALLAS_NATS_URL", help=help_of("Addresses of the NATS servers.", "nats"))
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

DEFAULT_DATA = Path(".pallas")


def data_or_that_of_the_context(ctx: typer.Context, given: Path) -> Path:
    """The data folder of `--data`, which leaves the context out; otherwise that of the context, or the default."""
    source = ctx.get_parameter_source("data")
    if source is not None and source.name == "COMMANDLINE":
        leave_out()
        return given
    return Path(setting("data") or given)


def _checked_data(ctx: typer.Context, given: Path) -> Path:
    return given if ctx.resilient_parsing else data_or_that_of_the_context(ctx, given)


Data = Annotated[
    Path,
    typer.Option(
        "--data",
        help="Data folder of `pallas up`. Its addresses and secrets are used if options and environment set no others. "
        "It replaces the context.",
        callback=_checked_data,
    ),
]
ASKING = "asking the broker"
_SEED_FILE = "PALLAS_NATS_SEED_FILE"


def access_to(url: str, data: Path, user: str = "cli") -> "Access":
    """Address and user for the broker: the user of `PALLAS_NATS_SEED`, or else that `user` of the stack in `data`.

    Raises:
        Refused: a variable is invalid.
    """
    from pallas_bus.access import Access
    from pallas_contracts.errors import Rejected
    from pallas_runtime.settings import BrokerSettings

    environ = {**os.environ, "PALLAS_NATS_URL": url}
    kept = _seed_of(user, data)
    if kept and not any(environ.get(name) for name in ("PALLAS_NATS_SEED", _SEED_FILE)) and Path(kept).exists():
        environ[_SEED_FILE] = str(kept)
    _add_authority(environ)
    try:
        return Access.of(BrokerSettings.from_env(environ))
    except Rejected as error:
        raise WrongUsage(error.message) from error


def store_bytes() -> int:
    """What the broker of `pallas up` may store, as the environment says.

    Raises:
        WrongUsage: that is no number of bytes.
    """
    from pallas_contracts.errors import Rejected
    from pallas_runtime.settings import StoreSettings

    # This variable alone, whatever the others have.
    given = {name: value for name, value in os.environ.items() if name.startswith("PALLAS_STORE_BYTES")}
    try:
        return StoreSettings.from_env(given).store_bytes
    except Rejected as error:
        raise WrongUsage(error.message) from error


def _add_authority(environ: dict[str, str]) -> None:
    """Trust the authority that the context names, unless the environment names one."""
    authority = setting("nats_ca_file")
    if authority and not any(environ.get(name) for name in ("PALLAS_NATS_CA", "PALLAS_NATS_CA_FILE")):
        environ["PALLAS_NATS_CA_FILE"] = authority


def _seed_of(user: str, data: Path) -> str | Path | None:
    """The seed file of a user: the context names those of `cli` and `system`, the data folder has all."""
    named = setting({"cli": "nats_seed_file", "system": "nats_system_seed_file"}.get(user, ""))
    return named or kept_in(data, f"nats/{user}.seed")


def system_access(url: str, data: Path, seed: Path | None) -> "Access":
    """Address and user of the broker's system account: of the file `seed`, the context, or the stack in `data`.

    Raises:
        WrongUsage: there is no seed.
    """
    from pallas_bus.access import Access
    from pallas_contracts.errors import Rejected
    from pallas_runtime.settings import BrokerSettings

    found = seed or _seed_of("system", data)
    if found is None:
        raise WrongUsage("the context has no seed of the system account: set it with --nats-system-seed-file")
    environ = {**os.environ, "PALLAS_NATS_URL": url, "PALLAS_NATS_SEED": "", _SEED_FILE: str(found)}
    _add_authority(environ)
    try:
        return Access.of(BrokerSettings.from_env(environ))
    except Rejected as error:
        reason = error.message.removeprefix("PALLAS_NATS_SEED: ")
        raise WrongUsage(f"--system-seed: {reason}; it names the seed of the user `system`") from error


@asynccontextmanager
async def platform(access: "Access", service: str = "cli") -> AsyncGenerator["Bus"]:
    """Connect to the broker as this user of the catalogue.

    Raises:
        Refused: the broker cannot be reached, or refuses the user.
    """
    from pallas_bus.connection import connect
    from pallas_contracts.errors import Rejected, Unavailable

    logging.getLogger("pallas_bus").addHandler(logging.NullHandler())  # the command reports errors itself
    try:
        async with connect(access, service, timeout=3.0) as bus:
            yield bus
    except Unavailable as error:
        kind = Refused if error.facts.get("credentials") else NotReachable
        raise kind(f"{error.message}{_hint(error)}") from error
    except Rejected as error:
        raise Refused(error.message) from error


def _hint(error: "Unavailable") -> str:
    if error.facts.get("credentials"):
        return f"; pass the data folder of its `pallas up` with --data, or set {_SEED_FILE}"
    if "PALLAS_NATS_URL" not in os.environ:
        return f"; {where_to_look('--nats')}"
    return ""


def run_on(
    url: str | None, data: Path, work: "Callable[[Bus], Awaitable[None]]", *, doing: str | None = ASKING
) -> None:
    """Connect to the broker at `url`, or of the stack in `data`, and run `work` until it ends or Ctrl-C.

    `doing` is shown on a terminal when that takes long; None: the work itself shows what it does, or asks.
    """
    run_as(access_to(find_address(url, data, "nats"), data), work, doing=doing)


@dataclass(frozen=True, slots=True)
class OnBroker:
    """The options of a command that say at which broker it works, and whether it prints JSON."""

    nats: str | None
    data: Path
    as_json: bool

    def run(self, work: "Callable[..., Awaitable[None]]", *, doing: str | None = ASKING, **given: object) -> None:
        """Connect, and run `work` with the bus, what is given and `as_json` until it ends or Ctrl-C."""
        run_on(self.nats, self.data, partial(work, **given, as_json=self.as_json), doing=doing)


def on_broker(work: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of `OnBroker`, which `work` gets as its first parameter."""

    def command(*, nats: NatsUrl = None, data: Data = DEFAULT_DATA, as_json: AsJson = False, **given: Any) -> None:
        work(OnBroker(nats, data, as_json), **given)

    *own, _ = signature(command).parameters.values()
    _, *others = signature(work).parameters.values()
    command.__dict__["__signature__"] = Signature(
        [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*others, *own)]
    )
    command.__name__, command.__doc__ = work.__name__, work.__doc__
    return command


def run_as(access: "Access", work: "Callable[[Bus], Awaitable[None]]", *, doing: str | None = ASKING) -> None:
    """Connect to the broker as this user, and run `work` until it ends or Ctrl-C."""
    import asyncio

    async def main() -> None:
        async with platform(access) as bus:
            await work(bus)

    try:
        with shown(doing):
            asyncio.run(main())
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
