"""The configuration file and the environment of RFC-018."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.requirements import requirement

from constellation_mcp.configuration import BadConfiguration, load

RFC: dict[str, Any] = {
    "constellation": {"baseUrl": "https://constellation.internal.acme.com", "apiKey": "${CONSTELLATION_API_KEY}"},
    "agent": {"id": "claude-code", "user": "alice@acme.com"},
    "cache": {"moduleTtlSeconds": 30, "documentationTtlSeconds": 3600},
    "features": {"allowColdStorage": True, "allowExecution": True, "maxSourceLength": 50000},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, beside an empty home."""
    here, home = tmp_path / "here", tmp_path / "home"
    for each in (here, home / ".config"):
        each.mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(home))
    return here


def write(path: Path, given: Any) -> Path:
    path.write_text(given if isinstance(given, str) else json.dumps(given), "utf-8")
    return path


@requirement("C-cfg-1")
def test_the_file_of_the_rfc_is_read(folder: Path) -> None:
    found = load(write(folder / "other.json", RFC), {"CONSTELLATION_API_KEY": "key_xxx"})
    assert found.constellation.base_url == RFC["constellation"]["baseUrl"]
    assert found.constellation.api_key
    assert found.constellation.api_key.get_secret_value() == "key_xxx"
    assert "key_xxx" not in repr(found)
    assert found.label("cursor") == "claude-code:alice@acme.com"
    assert (found.cache.module_ttl_seconds, found.features.max_source_length) == (30, 50_000)


def test_files_are_searched_in_order_and_the_environment_wins(folder: Path) -> None:
    def url(file: Path | None = None, **environment: str) -> str | None:
        return load(file, environment).constellation.base_url

    assert url() is None
    write(folder.parent / "home/.config/constellation-mcp.json", {"constellation": {"baseUrl": "http://home"}})
    assert url() == "http://home"
    write(folder / "constellation-mcp.json", {"constellation": {"baseUrl": "http://here/"}})
    assert url() == "http://here"
    assert url(write(folder / "other.json", {"constellation": {"baseUrl": "http://other"}})) == "http://other"
    assert url(CONSTELLATION_URL="http://environment") == "http://environment"
    assert url(CONSTELLATION_URL="") == "http://here"


@requirement("C-cfg-2")
def test_the_environment_alone_is_enough() -> None:
    given = {"CONSTELLATION_URL": "http://a", "CONSTELLATION_API_KEY": "k", "CONSTELLATION_AGENT_USER": "bob"}
    assert load(None, given).label("Cursor (VS Code)") == "Cursor-VS-Code:bob"
    assert load(None, {"CONSTELLATION_AGENT_USER": "bob"}).label(None) == "constellation-mcp:bob"


@requirement("C-cfg-3")
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"constelation": {}}, "constelation: no such field"),
        ({"features": {"allow_execution": True}}, "features.allow_execution: no such field"),
        ({"features": {"allowExecution": "yes"}}, "features.allowExecution: "),
        ({"features": {"maxSourceLength": 0}}, "features.maxSourceLength: "),
        ({"cache": {"moduleTtlSeconds": -1}}, "cache.moduleTtlSeconds: "),
        ({"constellation": {"baseUrl": "ftp://a"}}, "constellation.baseUrl: must be an address"),
        ({"constellation": {"baseUrl": "http://a:port"}}, "constellation.baseUrl: is no address"),
        ({"constellation": {"baseUrl": "http://"}}, "constellation.baseUrl: must be an address"),
        ({"constellation": {"baseUrl": "http://u:secret@a"}}, "constellation.baseUrl: must have no credentials"),
        ({"constellation": {"apiKey": "secret key"}}, "constellation.apiKey: must be printable"),
        ({"constellation": {"apiKey": "${NOT_SET}"}}, "constellation.apiKey: the variable NOT_SET is not set"),
        ({"agent": {"id": "a:b"}}, "agent.id: "),
        ({"agent": {"user": "a\r\nX: y"}}, "agent.user: "),
        ({"agent": 5}, "agent: "),
        ([], "is no JSON object"),
        ("{", "is no JSON: "),
    ],
)
def test_a_wrong_configuration_is_refused_by_its_field(folder: Path, given: Any, why: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        load(write(folder / "constellation-mcp.json", given), {})
    assert why in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_file_that_was_named_must_be_there(folder: Path) -> None:
    with pytest.raises(BadConfiguration, match="cannot be read"):
        load(folder / "nothing.json", {})
