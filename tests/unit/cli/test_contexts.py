"""Contexts: which platform commands talk to, and where each value comes from."""

import json
from pathlib import Path

import pytest
from tests.requirements import requirement
from typer.testing import CliRunner

from pallas_cli import main
from pallas_cli.backup.target import find_databases
from pallas_cli.broker import system_access
from pallas_cli.contexts import Contexts, contexts_file
from pallas_cli.refused import Refused, WrongUsage, not_reached

SERVICES = ("TEAM_LIFECYCLE", "LIBRARY_SEARCH", "WORKSPACES")
REFUSED = (Refused, WrongUsage)


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    for name in ("PALLAS_GATEWAY_URL", "PALLAS_NATS_URL", "PALLAS_TOKEN", "PALLAS_ADMIN_PASSWORD", "PALLAS_CONTEXT"):
        monkeypatch.delenv(name, raising=False)


def pallas(*words: str) -> str:
    """Run the command, which succeeds; returns its output."""
    result = CliRunner().invoke(main.commands, list(words))
    if isinstance(result.exception, Refused):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def used(setting: str, *words: str) -> tuple[str | None, str | None]:
    """The value of a setting, and where it comes from."""
    rows = json.loads(pallas(*words, "--json"))["settings"]
    [row] = [row for row in rows if row["setting"] == setting]
    return row["value"], row["source"]


def test_the_file_of_contexts_is_private_and_has_paths_only(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-secret")
    pallas("context", "add", "prod", "--gateway", "https://p.example.com", "--token-file", "token")
    assert contexts_file().stat().st_mode & 0o777 == 0o600
    assert "a-secret" not in contexts_file().read_text()
    assert Contexts.read().named["prod"]["token_file"] == str(tmp_path / "token")


@requirement("K-cli-2")
def test_an_option_beats_the_environment_which_beats_the_context_which_beats_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = tmp_path / "stack"
    stack.mkdir()
    (stack / "addresses.json").write_text(json.dumps({"gateway": "http://stack:1", "registry": "http://stack:2"}))
    show = ("context", "show")
    assert used("gateway", *show) == ("http://127.0.0.1:23050", "default")
    pallas("context", "add", "mine", "--data", "stack", "--gateway", "http://context:1", "--use")
    assert used("gateway", *show) == ("http://context:1", "context mine")
    assert used("registry", *show) == ("http://stack:2", f"data folder {stack}")
    monkeypatch.setenv("PALLAS_GATEWAY_URL", "http://variable:1")
    assert used("gateway", *show) == ("http://variable:1", "environment PALLAS_GATEWAY_URL")
    monkeypatch.delenv("PALLAS_GATEWAY_URL")
    assert used("gateway", *show, "--data", "stack") == ("http://stack:1", "data folder stack")


@requirement("K-cli-2")
def test_a_context_of_another_platform_never_gets_the_secrets_of_the_data_folder(tmp_path: Path) -> None:
    secret = tmp_path / ".pallas" / "secrets" / "admin-password"
    secret.parent.mkdir(parents=True)
    secret.write_text("local")
    assert used("admin password", "context", "show") == (".pallas/secrets/admin-password", "data folder .pallas")
    pallas("context", "add", "prod", "--team-lifecycle", "http://127.0.0.1:1", "--use")
    assert used("admin password", "context", "show") == (None, None)
    with pytest.raises(WrongUsage, match="set PALLAS_ADMIN_PASSWORD, or --admin-password-file of the context"):
        pallas("users", "list")
    with pytest.raises(WrongUsage, match="'prod' has no address of gateway: set it with --gateway"):
        pallas("rpc", "a", "b")


def test_a_context_is_chosen_for_one_run_by_option_or_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        pallas("context", "add", name, "--gateway", f"http://{name}:1")
    pallas("context", "use", "one")
    assert used("gateway", "context", "show")[0] == "http://one:1"
    assert used("gateway", "--context", "two", "context", "show")[0] == "http://two:1"
    monkeypatch.setenv("PALLAS_CONTEXT", "two")
    assert used("gateway", "context", "show")[0] == "http://two:1"
    assert used("gateway", "context", "show", "one")[0] == "http://one:1"
    monkeypatch.setenv("PALLAS_CONTEXT", "three")
    with pytest.raises(Refused, match="there is no context 'three'; there are: one, two"):
        pallas("agents", "list")


@pytest.mark.parametrize(
    "words",
    [
        ("--context", "two", "context", "show"),
        ("context", "--context=two", "show"),
        ("context", "show", "--context", "two"),
        ("--context", "one", "context", "show", "--context", "two"),
    ],
    ids=" ".join,
)
def test_a_context_may_be_named_before_or_after_the_command(words: tuple[str, ...]) -> None:
    for name in ("one", "two"):
        pallas("context", "add", name, "--gateway", f"http://{name}:1")
    assert used("gateway", *words)[0] == "http://two:1"


def test_a_context_without_a_name_is_refused_and_the_shell_offers_names() -> None:
    pallas("context", "add", "one", "--gateway", "http://one:1")
    runner = CliRunner()
    refused = runner.invoke(main.commands, ["agents", "list", "--context"])
    assert (refused.exit_code, "Option '--context' requires an argument" in refused.output) == (2, True)
    assert "the input is not JSON" in str(runner.invoke(main.commands, ["rpc", "a", "b", "--", "--context"]).exception)
    line = {"_PALLAS_COMPLETE": "complete_bash", "COMP_WORDS": "pallas agents list --context ", "COMP_CWORD": "4"}
    assert runner.invoke(main.commands, [], prog_name="pallas", env=line).output.split() == ["one"]


def test_the_current_context_ends_with_its_deletion() -> None:
    pallas("context", "add", "mine", "--gateway", "http://g:1", "--use")
    assert json.loads(pallas("context", "list", "--json")) == [
        {"context": "mine", "current": True, "gateway": "http://g:1"}
    ]
    pallas("context", "delete", "mine", "--yes")
    assert (Contexts.read().current, Contexts.read().named) == (None, {})
    assert "There are no contexts" in pallas("context", "list")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("add", "x"), "has no use"),
        (("add", "a/b", "--gateway", "http://g:1"), "not a valid name"),
        (("add", "x", "--gateway", "g:1"), "not an address"),
        (("add", "x", "--nats", "http://g:1"), "not an address such as tls://"),
        (("add", "x", "--gateway", "http://me:pw@g:1"), "a password has no place"),
        (("add", "there", "--gateway", "http://g:1"), "pass --replace"),
        (("use", "nowhere"), "there is no context 'nowhere'"),
        (("use",), "name a context, or pass --none"),
        (("delete", "nowhere", "--yes"), "there is no context"),
        (("delete", "there"), "to confirm that context there is deleted, pass --yes"),
    ],
    ids=lambda each: each if isinstance(each, str) else " ".join(each),
)
def test_what_makes_no_sense_is_refused(words: tuple[str, ...], reason: str) -> None:
    pallas("context", "add", "there", "--gateway", "http://g:1")
    with pytest.raises(REFUSED, match=reason):
        pallas("context", *words)


def test_a_broken_file_of_contexts_is_refused_by_name() -> None:
    contexts_file().parent.mkdir(parents=True)
    contexts_file().write_text("[]")
    with pytest.raises(Refused, match=r"contexts.json cannot be read: AttributeError"):
        pallas("agents", "list")


def test_a_context_names_the_databases_for_backups_and_never_gets_those_of_a_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PALLAS_POSTGRES_URL", *(f"PALLAS_{each}_POSTGRES_URL" for each in SERVICES)):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "url").write_text("postgresql://u:p@db.example.com:5432\n")
    pallas("context", "add", "bare", "--nats", "nats://n.example.com:4222", "--use")
    with pytest.raises(WrongUsage, match="no addresses of databases"):
        find_databases(None, None, tmp_path / "stack")
    pallas("context", "add", "full", "--nats", "nats://n.example.com:4222", "--postgres-url-file", "url", "--use")
    found = find_databases(None, None, tmp_path / "stack")
    assert found["workspaces"].startswith("postgresql://u:p@db.example.com:5432/workspaces")


def test_a_context_names_the_seed_of_the_system_account(tmp_path: Path) -> None:
    pallas("context", "add", "prod", "--nats", "nats://n.example.com:4222", "--use")
    with pytest.raises(WrongUsage, match="--nats-system-seed-file"):
        system_access("nats://n.example.com:4222", tmp_path, None)
    pallas("context", "add", "prod", "--nats-system-seed-file", "system.seed", "--replace")
    assert used("nats system seed", "context", "show")[0] == f"{tmp_path / 'system.seed'} (missing)"


def test_what_does_not_answer_leads_to_the_context_that_has_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is `pallas up` running?" in str(not_reached("the gateway"))
    monkeypatch.setattr("pallas_cli.contexts.active", lambda: ("prod", {"gateway": "http://127.0.0.1:9"}))
    assert str(not_reached("the gateway")) == (
        "the gateway cannot be reached; check the address of the context 'prod', or of --url"
    )
