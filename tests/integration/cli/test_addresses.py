"""Which stack a command selects: the option, then the environment, then the data folder, by default `.pallas`."""

from pathlib import Path

import pytest
from tests.embedded import free_port
from typer.testing import CliRunner

from pallas_cli.kept_addresses import keep_addresses
from pallas_cli.main import commands


@pytest.mark.parametrize(
    ("words", "variable", "expected"),
    [
        (["--data", "stack", "--url", "{option}"], True, "option"),
        (["--data", "stack"], True, "variable"),
        (["--data", "stack"], False, "stack"),
        ([], False, ".pallas"),
    ],
)
def test_the_option_precedes_the_environment_and_that_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], variable: bool, expected: str
) -> None:
    urls = {name: f"http://127.0.0.1:{free_port()}" for name in ("option", "variable", "stack", ".pallas")}
    for folder in ("stack", ".pallas"):
        keep_addresses(tmp_path / folder, {"team_lifecycle": urls[folder]})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALLAS_ADMIN_PASSWORD", "word")
    monkeypatch.setenv("PALLAS_TEAM_LIFECYCLE_URL", urls["variable"] if variable else "")
    result = CliRunner().invoke(commands, ["teams", "list", *(word.format_map(urls) for word in words)])
    assert f"team-lifecycle at {urls[expected]} cannot be reached" in str(result.exception)
