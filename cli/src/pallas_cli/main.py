"""The `pallas` command.

A new group of commands is a file in `commands/` and a line in `groups.py`. This module imports nothing heavy, so
`pallas --help` is fast.
"""

import json
import os
import sys
from collections.abc import MutableMapping, Sequence
from errno import ENOSPC, EPIPE
from typing import Annotated

import typer

from pallas_cli.completing import complete_context
from pallas_cli.contexts import choose
from pallas_cli.groups import Root
from pallas_cli.plain_text import print_plain
from pallas_cli.refused import Refused, WrongUsage

# Without a markup mode typer does not import rich, whose import is slower than everything else here.
commands = typer.Typer(cls=Root, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"pallas {version('pallas-cli')}")
        raise typer.Exit


@commands.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
    chosen: Annotated[
        str | None,
        typer.Option(
            "--context",
            envvar="PALLAS_CONTEXT",
            metavar="NAME",
            help="Use this context instead of the current one. It may also follow the command.",
            autocompletion=complete_context,
        ),
    ] = None,
) -> None:
    """Pallas hosts teams of LLM agents behind MCP."""
    choose(chosen)


def app() -> None:
    """Run the command that the user typed. An expected error becomes lines on standard error, or one JSON document."""
    _bypass_proxies_on_loopback(os.environ)
    as_json = "--json" in sys.argv[1:]
    try:
        code = _run(as_json=as_json)
        sys.stdout.flush()
    except OSError as error:
        code = _report_unwritten(error, as_json=as_json)
    raise SystemExit(code)


def _run(*, as_json: bool) -> int | str | None:
    """Run the command, and return its exit code."""
    try:
        _check_text(sys.argv[1:])
        # With --json, errors of the command line come here, too; otherwise typer prints them with a hint.
        return commands(standalone_mode=not as_json)
    except SystemExit as end:
        return end.code
    except Refused as refusal:
        return _report(refusal, as_json=as_json)
    except typer.Abort:
        return _report(Refused("not confirmed", word="declined"), as_json=as_json)
    except typer.TyperException as error:
        return _report(WrongUsage(error.format_message()), as_json=as_json)


def _check_text(words: Sequence[str]) -> None:
    """Refuse an argument that is no text, since it could not be sent.

    Raises:
        WrongUsage: an argument is not in the encoding of the terminal.
    """
    for number, word in enumerate(words, 1):
        try:
            word.encode()
        except UnicodeEncodeError:
            encoding = sys.getfilesystemencoding().upper()
            raise WrongUsage(f"argument {number} is not {encoding} text: {word!a}") from None


def _report_unwritten(error: OSError, *, as_json: bool) -> int:
    """Say why standard output could not be written; nothing if its reader has gone (`| head -1`).

    Raises:
        OSError: this was not the reason.
    """
    if error.errno not in (EPIPE, ENOSPC):
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python writes what is left when it ends
    if error.errno == EPIPE:
        return Refused.default_code
    return _report(Refused(f"{error.filename or 'standard output'}: {error.strerror}"), as_json=as_json)


def _report(refusal: Refused, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(refusal.as_json(), ensure_ascii=False), file=sys.stderr, flush=True)
    else:
        for line in refusal.lines:
            print_plain(f"pallas: {line}", err=True)
    return refusal.code


def _bypass_proxies_on_loopback(environ: MutableMapping[str, str]) -> None:
    """Send requests to loopback directly, whatever proxy is configured: they carry passwords."""
    exempt = environ.get("no_proxy") or environ.get("NO_PROXY")
    environ["no_proxy"] = environ["NO_PROXY"] = ",".join(filter(None, (exempt, "localhost,127.0.0.1,::1")))
