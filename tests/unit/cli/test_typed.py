"""What a person types to run the command again."""

from pathlib import Path

import pytest

from pallas_cli.typed import typed


def test_an_installed_command_is_typed_by_its_name() -> None:
    assert typed({"PATH": "/usr/bin"}) == "pallas"


def test_uv_is_named_by_its_path_if_the_shell_would_not_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = tmp_path / ".tools" / "uv"
    uv.parent.mkdir()
    uv.touch(0o755)
    monkeypatch.chdir(tmp_path)
    assert typed({"UV": str(uv), "PATH": "/nowhere"}) == ".tools/uv run pallas"
    assert typed({"UV": str(uv), "PATH": str(uv.parent)}) == "uv run pallas"
    assert typed({"UV": "/elsewhere/uv", "PATH": "/nowhere"}) == "/elsewhere/uv run pallas"
