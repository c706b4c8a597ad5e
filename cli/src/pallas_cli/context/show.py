"""Lists contexts, and shows what commands would use with the source of each value."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from pallas_cli.contexts import ADDRESSES, Contexts, active, kept_in, setting
from pallas_cli.kept_addresses import source_of
from pallas_cli.paging import Page
from pallas_cli.plain_table import print_table
from pallas_cli.plain_text import print_plain
from pallas_cli.refused import Refused

_VARIABLES = {part: f"PALLAS_{part.upper()}_URL" for part in ADDRESSES}
_SECRETS = {
    "token": ("PALLAS_TOKEN", "token_file", None),
    "admin password": ("PALLAS_ADMIN_PASSWORD", "admin_password_file", "admin-password"),
    "nats seed": ("PALLAS_NATS_SEED", "nats_seed_file", "nats/cli.seed"),
    "nats system seed": ("PALLAS_NATS_SYSTEM_SEED", "nats_system_seed_file", "nats/system.seed"),
    "nats ca": ("PALLAS_NATS_CA", "nats_ca_file", None),
    "log key": ("PALLAS_LOG_KEY", "log_key_file", "log-key"),
    "postgres": ("PALLAS_POSTGRES_URL", "postgres_url_file", None),
}
"""Of each secret: its variable, its setting in a context, and its file below `secrets` of a data folder."""

type Row = dict[str, str | None]


def list_contexts(page: Page, *, as_json: bool) -> None:
    """Print a page of contexts, by name."""
    contexts = Contexts.read()
    names = page.cut(sorted(contexts.named), str)
    if as_json:
        rows = [{"context": name, "current": name == contexts.current, **contexts.named[name]} for name in names]
        print(json.dumps(rows, indent=2))
    elif not contexts.named:
        print_plain("There are no contexts; `pallas context add` makes one.")
    else:
        print_table(("", "context", "platform"), (_cells(contexts, name) for name in names))


def _cells(contexts: Contexts, name: str) -> list[str]:
    settings = contexts.named[name]
    first = settings.get("gateway") or settings.get("data") or next(iter(settings.values()))
    return ["*" if name == contexts.current else "", name, first]


def show_context(data: Path, *, as_json: bool) -> None:
    """Print what commands with the data folder `data` would use."""
    found = active()
    name = found[0] if found else None
    rows = [*_addresses(data), *_secrets(data)]
    if as_json:
        print(json.dumps({"context": name, "settings": rows}, indent=2))
        return
    print_plain(f"context: {name or 'none'}")
    print_table(("setting", "value", "from"), [[each or "-" for each in row.values()] for row in rows])


def _addresses(data: Path) -> Iterator[Row]:
    for part in ADDRESSES:
        variable = _VARIABLES[part]
        if given := os.environ.get(variable):
            yield {"setting": part, "value": given, "source": f"environment {variable}"}
            continue
        try:
            value, source = source_of(None, data, part)
        except Refused as refusal:
            yield {"setting": part, "value": None, "source": str(refusal)}
        else:
            yield {"setting": part, "value": value, "source": source}


def _secrets(data: Path) -> Iterator[Row]:
    """The places of secrets, never their values."""
    for secret, (variable, of_context, kept) in _SECRETS.items():
        path = kept_in(data, kept) if kept else None
        if given := next((name for name in (variable, f"{variable}_FILE") if os.environ.get(name)), None):
            yield {"setting": secret, "value": "set", "source": f"environment {given}"}
        elif named := setting(of_context):
            there = named if Path(named).is_file() else f"{named} (missing)"
            yield {"setting": secret, "value": there, "source": f"context {_name()}"}
        elif path is not None and path.is_file():
            yield {"setting": secret, "value": str(path), "source": f"data folder {data}"}
        else:
            yield {"setting": secret, "value": None, "source": None}


def _name() -> str:
    found = active()
    return found[0] if found else "none"
