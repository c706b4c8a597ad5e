"""Hashes as this API writes them: 64 hex digits. Over MCP, and inside the service, `sha256:` is in front of them."""

from pallas_contracts.agents import JsonObject

_PREFIX = "sha256:"
_FIELDS = ("structuralHash", "syntacticHash", "left", "right")


def bare(document: JsonObject) -> JsonObject:
    """A document whose own hashes, and those of its versions, have no prefix."""
    changed = {name: document[name].removeprefix(_PREFIX) for name in _FIELDS if name in document}
    if "versions" in document:
        changed["versions"] = [bare(each) for each in document["versions"]]
    return document | changed
