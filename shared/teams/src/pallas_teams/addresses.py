"""Rules about `fastagent.config.yaml` merged with the secrets: addresses, headers, transports of servers.

An invalid header is refused here, because an HTTP client's error about it would contain its value.
"""

import re
from urllib.parse import urlsplit

from pallas_teams.faults import FaultList, FieldPath
from pallas_teams.providers import PROVIDERS
from pallas_teams.schema import FORBIDDEN, SERVER_NAME
from pallas_teams.shape import Branch, Entry, Leaf, Row, is_empty

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"([\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?)?")
_HTTP_FIELDS = ("url", "headers")
_STDIO_FIELDS = ("command", "args", "env", "cwd")
_PUBLISHED = ("default_model", "model_capabilities")

FORBIDDEN_REASON = (
    "is not supported: a caller's token is never passed on. Put the static team JWT that replaces it into"
    " mcp.servers.<name>.headers.Authorization in fastagent.secrets.yaml"
)


def check_forbidden(tree: Branch | Row, faults: FaultList, path: FieldPath = ()) -> None:
    """Add a fault for each `forward_inbound_auth`, at any depth."""
    if isinstance(tree, Row):
        parts = [(n, item) for n, item in enumerate(tree.items)]
    else:
        parts = [(key, entry.node) for key, entry in tree.entries.items()]
        if FORBIDDEN in tree.entries:
            faults.add(tree.entries[FORBIDDEN].mark, (*path, FORBIDDEN), FORBIDDEN_REASON)
    for part, node in parts:
        if isinstance(node, Branch | Row):
            check_forbidden(node, faults, (*path, part))


def check_secrets(secrets: Branch, faults: FaultList) -> None:
    """Add a fault for each field in the secrets file that would be published."""
    for field in _PUBLISHED:
        if secrets.has(field):
            faults.add(secrets.entries[field].mark, (field,), "is published, so it belongs in fastagent.config.yaml")


def check_config(config: Branch, faults: FaultList) -> None:
    """Check every provider and every server."""
    for provider in PROVIDERS:
        _check_url(config.text(provider, "base_url"), (provider, "base_url"), faults)
        _check_header_value(config.text(provider, "api_key"), (provider, "api_key"), faults)
    for name, entry in config.branch("mcp", "servers").entries.items():
        path = ("mcp", "servers", name)
        if not SERVER_NAME.fullmatch(name):
            faults.add(entry.mark, path, "a server's name must be 1 to 64 characters of A-Z, a-z, 0-9, '_' and '-'")
        if isinstance(entry.node, Branch):
            _check_server(entry.node, entry, path, faults)


def transport_of(server: Branch) -> str | None:
    """The transport of a server: its `transport`, else `http` with a url or `stdio` with a command; None if unclear."""
    configured = server.text("transport")
    if configured is not None:
        return str(configured.value)
    return "http" if server.has("url") else "stdio" if server.has("command") else None


def _check_server(server: Branch, entry: Entry, path: FieldPath, faults: FaultList) -> None:
    match transport_of(server):
        case "http":
            _check_fields(server, entry, path, "url", _STDIO_FIELDS, "http", faults)
        case "stdio":
            _check_fields(server, entry, path, "command", _HTTP_FIELDS, "stdio", faults)
        case None:
            faults.add(entry.mark, path, "needs a url (http) or a command (stdio)")
        case _:
            pass
    _check_url(server.text("url"), (*path, "url"), faults)
    _check_headers(server.branch("headers"), (*path, "headers"), faults)
    for name, variable in server.branch("env").entries.items():
        if not name or "=" in name or is_empty(variable.node):
            faults.add(variable.mark, (*path, "env"), "must be a variable's name with a text as its value")


def _check_fields(
    server: Branch,
    entry: Entry,
    path: FieldPath,
    needed: str,
    refused: tuple[str, ...],
    transport: str,
    faults: FaultList,
) -> None:
    if not server.has(needed):
        faults.add(entry.mark, (*path, needed), f"is needed for transport {transport}")
    for field in refused:
        if server.has(field):
            faults.add(server.entries[field].mark, (*path, field), f"is not for transport {transport}")


def _check_url(leaf: Leaf | None, path: FieldPath, faults: FaultList) -> None:
    if leaf is None:
        return
    text = str(leaf.value)
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid or not text.isprintable() or " " in text:
        faults.add(leaf.mark, path, "must be a URL that begins with http:// or https://")


def _check_headers(headers: Branch, path: FieldPath, faults: FaultList) -> None:
    seen: set[str] = set()
    for name, entry in headers.entries.items():
        if not _HEADER_NAME.fullmatch(name):
            faults.add(entry.mark, path, "is not the name of an HTTP header")
        elif is_empty(entry.node):
            faults.add(entry.mark, path, "a header needs a value")
        elif name.lower() in seen:
            faults.add(entry.mark, path, "this header is given twice")
        seen.add(name.lower())
        _check_header_value(headers.text(name), path, faults)


def _check_header_value(leaf: Leaf | None, path: FieldPath, faults: FaultList) -> None:
    if leaf is not None and not _HEADER_VALUE.fullmatch(str(leaf.value)):
        faults.add(
            leaf.mark, path, "must be one line of ASCII text with no space at its ends (it becomes an HTTP header)"
        )
