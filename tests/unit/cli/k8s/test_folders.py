"""Team folders as ConfigMaps, Secrets and volumes."""

import os
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.k8s.manifests import a_team

from pallas_cli.k8s.folders import Team, read_folders
from pallas_cli.refused import Refused

KEY = "-----BEGIN PRIVATE KEY-----\nabc"


def read(*folders: Path, **claims: str) -> list[Team]:
    return read_folders(folders, claims)


def objects(team: Team) -> dict[str, Any]:
    return {each["kind"]: each for each in team.objects("there")}


def test_files_are_in_a_config_map_and_secrets_in_a_secret(tmp_path: Path) -> None:
    folder = a_team(tmp_path / "red", "red", "one", fastagent_secrets_yaml="anthropic: {api_key: s3cret}")
    made = objects(read(folder)[0])
    assert list(made["ConfigMap"]["data"]) == ["agents.yaml"]
    assert b64decode(made["Secret"]["data"]["fastagent.secrets.yaml"]) == b"anthropic: {api_key: s3cret}"
    assert "s3cret" not in str(made["ConfigMap"])
    assert {each["metadata"]["name"] for each in made.values()} == {"team-red"}


def test_hidden_files_and_compiled_ones_are_left_out(tmp_path: Path) -> None:
    folder = a_team(tmp_path / "red", "red", "one")
    for name in (".env", ".git/config", "__pycache__/x.pyc"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("TOKEN=s3cret", "utf-8")
    assert list(objects(read(folder)[0])["ConfigMap"]["data"]) == ["agents.yaml"]


def test_nested_files_are_mounted_under_their_own_paths(tmp_path: Path) -> None:
    [team] = read(a_team(tmp_path / "red", "red", "one", docs__a_md="text"))
    [mounted, secret] = team.hosted.volume["projected"]["sources"]
    assert {item["key"]: item["path"] for item in mounted["configMap"]["items"]}["docs..a.md"] == "docs/a.md"
    assert objects(team)["ConfigMap"]["data"]["docs..a.md"] == "text"
    assert secret == {"secret": {"name": "team-red", "optional": True}}


def test_a_flat_folder_needs_no_list_of_files_so_a_new_file_restarts_nothing(tmp_path: Path) -> None:
    [team] = read(a_team(tmp_path / "red", "red", "one"))
    assert team.hosted.volume["projected"]["sources"][0] == {"configMap": {"name": "team-red"}}


def test_files_that_are_no_text_are_kept_as_they_are(tmp_path: Path) -> None:
    folder = a_team(tmp_path / "red", "red", "one")
    (folder / "icon.png").write_bytes(b"\x89PNG\xff")
    assert b64decode(objects(read(folder)[0])["ConfigMap"]["binaryData"]["icon.png"]) == b"\x89PNG\xff"


def test_variables_that_only_pods_have_need_no_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    config = "default_model: anthropic.x\nmcp: {servers: {argos: {url: '${ARGOS_URL}/mcp'}}}"
    folder = a_team(tmp_path / "red", "red", "one", fastagent_config_yaml=config)
    (folder / "agents.yaml").write_text((folder / "agents.yaml").read_text("utf-8").replace("model: offline, ", ""))
    assert "ARGOS_URL" not in os.environ
    assert read(folder)[0].agents == ("one",)


@pytest.mark.parametrize(
    ("name", "files", "reason"),
    [
        ("red", {"big_txt": "x" * 1_100_000}, r"team red: its files have 11001\d\d bytes, .* big.txt \(1100000\)"),
        ("red", {"key_pem": KEY}, "team red: key.pem has a private key"),
        ("red", {"a file_txt": "x"}, "'a file.txt'"),
        ("red", {"a__b_txt": "x", "a..b_txt": "x"}, "'a/b.txt' and 'a..b.txt' would be one file"),
        ("red_", {}, "team 'red_' cannot be named in Kubernetes"),
        ("r" * 60, {}, "cannot be named in Kubernetes: at most 50"),
    ],
)
def test_what_a_cluster_cannot_hold_is_refused_with_its_reason(
    tmp_path: Path, name: str, files: dict[str, str], reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        list(read(a_team(tmp_path / "folder", name, "one", **files))[0].objects("there"))


def test_a_link_publishes_nothing_from_outside_of_the_folder(tmp_path: Path) -> None:
    folder = a_team(tmp_path / "red", "red", "one", key="s3cret")
    (folder / "key").rename(tmp_path / "key")
    (folder / "link").symlink_to(tmp_path / "key")
    with pytest.raises(Refused, match="link is a link out of its folder"):
        read(folder)
    assert read(folder, red="files")[0].secrets == {}
    (folder / "link").unlink()
    (folder / "link").symlink_to("agents.yaml")
    assert read(folder)[0].files["link"] == read(folder)[0].files["agents.yaml"]
    (folder / "dangling").symlink_to("nothing")
    with pytest.raises(Refused, match=r"cannot read .*dangling: No such file"):
        read(folder)


def test_a_large_folder_can_come_from_a_volume(tmp_path: Path) -> None:
    [team] = read(a_team(tmp_path / "red", "red", "one", big_txt="x" * 1_100_000), red="files")
    assert team.hosted.volume == {"persistentVolumeClaim": {"claimName": "files", "readOnly": True}}
    assert objects(team) == {}
    with pytest.raises(Refused, match="blue"):
        read(a_team(tmp_path / "red", "red", "one"), blue="files")


def test_a_folder_with_faults_is_refused_with_all_of_them(tmp_path: Path) -> None:
    folder = a_team(tmp_path / "red", "red", "one")
    (folder / "agents.yaml").write_text("name: red\nagents: {one: {colour: blue}}\n", "utf-8")
    with pytest.raises(Refused) as refused:
        read(folder)
    assert len(refused.value.lines) > 1
