"""The stanza with a team's JWT is merged into a file of secrets, which is otherwise left as it is."""

import os
import stat
from pathlib import Path

import pytest
import yaml
from tests.requirements import requirement

from pallas_cli.refused import Refused
from pallas_cli.rest.stanza import reveal_into

JWT = "eyJ" + "x" * 400
STANZA = f"""\
mcp:
  servers:
    mnemosyne:
      transport: http
      url: https://mnemosyne.example/mcp/
      headers:
        Authorization: Bearer {JWT}
"""
OLD = """\
# The keys of the team.
anthropic:
  api_key: 'sk-1'   # from the vault
mcp:
  servers:
    argos:
      headers: {Authorization: "Bearer 1"}
    mnemosyne:
      headers:
        Authorization: Bearer old
        X-Team: kottos
on: yes
version: 0777
"""


def put(path: Path, stanza: str = STANZA) -> str:
    """Merge the stanza into the file; return the file's new text."""
    assert reveal_into(path, lambda: stanza) == path.resolve()
    return path.read_text("utf-8")


@requirement("A-9.1.3")
def test_a_missing_file_becomes_the_stanza_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "fastagent.secrets.yaml"
    assert put(path) == STANZA
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_other_content_stays_with_its_comments_and_quotes(tmp_path: Path) -> None:
    path = tmp_path / "secrets.yaml"
    path.write_text(OLD)
    path.chmod(0o644)
    before, text = yaml.safe_load(OLD), put(path)
    for line in [*OLD.splitlines()[:7], "        X-Team: kottos", "on: yes", "version: 0777"]:
        assert f"{line}\n" in text
    wanted = {**yaml.safe_load(STANZA)["mcp"]["servers"]["mnemosyne"]}
    wanted["headers"] = {"Authorization": f"Bearer {JWT}", "X-Team": "kottos"}
    before["mcp"]["servers"]["mnemosyne"] = wanted
    assert yaml.safe_load(text) == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert put(path) == text, "a second time nothing changes"


def test_a_file_of_comments_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "secrets.yaml"
    path.write_text("# Nothing yet.\n")
    assert put(path) == f"# Nothing yet.\n{STANZA}"


def test_a_link_stays_and_its_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    path = tmp_path / "secrets.yaml"
    path.symlink_to("kept/secrets.yaml")
    assert put(path) == STANZA
    assert os.readlink(path) == "kept/secrets.yaml"
    assert (tmp_path / "kept" / "secrets.yaml").read_text() == STANZA


def test_headers_that_servers_share_do_not_give_the_jwt_to_others(tmp_path: Path) -> None:
    path = tmp_path / "secrets.yaml"
    path.write_text(
        "mcp:\n  servers:\n    mnemosyne:\n      headers: &all {Authorization: Bearer 1}\n"
        "    argos:\n      headers: *all\n"
    )
    servers = yaml.safe_load(put(path))["mcp"]["servers"]
    assert servers["argos"]["headers"] == {"Authorization": "Bearer 1"}
    assert servers["mnemosyne"]["headers"] == {"Authorization": f"Bearer {JWT}"}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("mcp: [secret\nx: 1\n", "line 2: is not valid YAML"),
        ("- secret\n", "is no mapping"),
        ("null\n", "is no mapping"),
        ("mcp: secret\n", "mcp is no mapping"),
        ("mcp:\n  servers: [secret]\n", "mcp.servers is no mapping"),
        ("a: secret\na: secret\n", "line 2: is not valid YAML"),
        (b"a: \xff", "is not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_merged_is_refused_before_anything_is_revealed(
    tmp_path: Path, content: str | bytes, fault: str
) -> None:
    path = tmp_path / "secrets.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = path.read_bytes()
    with pytest.raises(Refused) as refused:
        reveal_into(path, lambda: pytest.fail("it was revealed"))
    assert refused.value.lines == (f"{path}: {fault}",)
    assert path.read_bytes() == before


def test_a_folder_that_is_missing_is_refused_before_anything_is_revealed(tmp_path: Path) -> None:
    path = tmp_path / "typo" / "secrets.yaml"
    with pytest.raises(Refused, match="No such file or directory"):
        reveal_into(path, lambda: pytest.fail("it was revealed"))
    assert not path.parent.exists()


def test_a_jwt_that_could_not_be_written_is_said_to_be_lost(tmp_path: Path) -> None:
    path = tmp_path / "secrets.yaml"

    def reveal() -> str:
        (tmp_path / ".secrets.yaml.new").mkdir()
        return STANZA

    with pytest.raises(Refused) as refused:
        reveal_into(path, reveal)
    assert refused.value.lines[-1] == "the JWT was revealed and is lost: rotate it and try again"
    assert JWT not in str(refused.value)
