"""The configuration of a folder with fast-agent agents: it is fast-agent's, so only what Pallas needs of it is read.

That is the default model, the capabilities that are published, the addresses of models that can be probed, and the
servers. A server that Pallas cannot probe is left out here, and used by fast-agent all the same.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from pallas_teams.addresses import FORBIDDEN_REASON, check_forbidden
from pallas_teams.build import expand_foreign
from pallas_teams.fast_agent.project import CONFIG_NAMES, HOME, SECRETS_NAMES
from pallas_teams.faults import FaultList, Mark
from pallas_teams.parse import parse_file
from pallas_teams.providers import PROVIDERS
from pallas_teams.schema import SERVER_NAME, CapabilitiesSection, ProviderSection
from pallas_teams.shape import Branch, Entry, Leaf, Node, Row, merge

_HTTP = ("url", "headers")
_STDIO = ("command", "args", "env", "cwd")


def config_folder(folder: Path) -> Path:
    """Where fast-agent looks for the configuration: in `.fast-agent` if that has one, else in the folder itself."""
    home = folder / HOME
    return home if any((home / name).is_file() for name in CONFIG_NAMES) else folder


def config_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """The files with the configuration and the secrets. More than one of a sort is a fault."""
    where = config_folder(folder)
    return (
        [where / name for name in CONFIG_NAMES if (where / name).is_file()],
        [where / name for name in SECRETS_NAMES if (where / name).is_file()],
    )


def read_config(folder: Path, environ: Mapping[str, str], faults: FaultList) -> Branch | None:
    """What Pallas needs of the configuration, merged with the secrets. None: a file cannot be read."""
    found = config_files(folder)
    for paths in found:
        if len(paths) > 1:
            faults.add(Mark(str(paths[1])), (), f"{paths[0].name} is there too, and fast-agent reads only one of them")
    config, secrets = (
        parse_file(paths[0], faults, secret=secret, foreign=True) if paths else Branch(Mark(str(folder)), {})
        for paths, secret in zip(found, (False, True), strict=True)
    )
    if config is None or secrets is None:
        return None
    merged = merge(config, secrets)
    assert isinstance(merged, Branch)
    check_forbidden(merged, faults)
    _check_forwarding(merged, faults)
    expanded = expand_foreign(merged, environ, faults)
    return _needed(expanded) if isinstance(expanded, Branch) else None


def check_links(folders: Sequence[Path], beside: Sequence[Path], faults: FaultList) -> None:
    """Add a fault for each file of settings or secrets that is a link into the folder of another team, read or beside.

    Whoever reads several teams would else send the secrets of one to the addresses of another.
    """
    roots = {folder: folder.resolve() for folder in (*folders, *beside)}
    for folder in folders:
        for path in (home / name for home in (folder / HOME, folder) for name in (*CONFIG_NAMES, *SECRETS_NAMES)):
            real = path.resolve()
            if not path.exists() or real.is_relative_to(roots[folder]):
                continue
            if others := [other for other, root in roots.items() if real.is_relative_to(root)]:
                faults.add(Mark(str(path)), (), f"is a link into the folder of another team, {others[0]}")


def _check_forwarding(config: Branch, faults: FaultList) -> None:
    """`auth.forward` of a server is another way to pass a caller's bearer on."""
    for name, entry in config.branch("mcp", "servers").entries.items():
        auth = entry.node.branch("auth") if isinstance(entry.node, Branch) else None
        if auth is not None and auth.has("forward"):
            path = ("mcp", "servers", name, "auth", "forward")
            faults.add(auth.entries["forward"].mark, path, FORBIDDEN_REASON)


def _needed(config: Branch) -> Branch:
    fields = {"default_model": config.entries.get("default_model")}
    fields["model_capabilities"] = _only(config, "model_capabilities", CapabilitiesSection.model_fields)
    fields |= {name: _only(config, name, ProviderSection.model_fields) for name in PROVIDERS}
    servers = {
        name: Entry(entry.mark, server)
        for name, entry in config.branch("mcp", "servers").entries.items()
        if SERVER_NAME.fullmatch(name) and (server := _server(entry.node)) is not None
    }
    top = config.mark
    fields["mcp"] = Entry(top, Branch(top, {"servers": Entry(top, Branch(top, servers))}))
    return Branch(top, {key: entry for key, entry in fields.items() if entry is not None})


def _only(config: Branch, name: str, known: Mapping[str, object]) -> Entry | None:
    entry = config.entries.get(name)
    if entry is None or not isinstance(entry.node, Branch):
        return entry
    kept = {key: value for key, value in entry.node.entries.items() if key in known}
    return Entry(entry.mark, Branch(entry.node.mark, kept))


def _server(node: Node) -> Branch | None:
    """A server as `ServerSection` has it; None if its transport is none of those that Pallas knows."""
    if not isinstance(node, Branch) or node.has("connector_id") or _value(node, "management") == "provider":
        return None
    entries = dict(node.entries)
    if (target := node.text("target")) is not None:
        entries |= _target(target)
    server = Branch(node.mark, entries)
    transport = _value(node, "transport") or ("http" if server.has("url") else "stdio")
    if transport not in ("http", "stdio") or not server.has("url" if transport == "http" else "command"):
        return None
    fields = {key: entries[key] for key in (_HTTP if transport == "http" else _STDIO) if key in entries}
    if transport == "http" and (bearer := node.text("access_token")) is not None:
        fields["headers"] = _with_bearer(server, bearer)
    return Branch(node.mark, fields)


def _target(target: Leaf) -> Mapping[str, Entry]:
    """`target: uvx mcp-server-time` is a command with arguments; `target: https://…` an address."""
    text = str(target.value)
    if text.startswith(("http://", "https://")):
        return {"url": Entry(target.mark, target)}
    try:
        command, *rest = shlex.split(text)
    except ValueError:
        return {}
    return {
        "command": Entry(target.mark, Leaf(target.mark, command, target.secret)),
        "args": Entry(target.mark, _row(target, rest)),
    }


def _row(like: Leaf, texts: Sequence[str]) -> Row:
    return Row(like.mark, tuple(Leaf(like.mark, text, like.secret) for text in texts))


def _with_bearer(server: Branch, bearer: Leaf) -> Entry:
    headers = server.branch("headers")
    token = str(bearer.value).removeprefix("Bearer ")
    entry = Entry(bearer.mark, Leaf(bearer.mark, f"Bearer {token}", secret=True))
    return Entry(bearer.mark, Branch(headers.mark, {**headers.entries, "Authorization": entry}))


def _value(node: Branch, key: str) -> object:
    leaf = node.text(key)
    return leaf.value if leaf else None
