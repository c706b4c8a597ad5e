"""Where commands find the log key."""

from pathlib import Path

import pytest

from pallas_cli.log_key import find_log_key
from pallas_cli.refused import Refused
from pallas_cli.stack.data import kept_secret
from pallas_contracts.keyed import LogKey


def test_the_key_of_the_environment_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_secret(tmp_path, "log-key")
    monkeypatch.setenv("PALLAS_LOG_KEY", "k" * 32)
    assert find_log_key(tmp_path) == LogKey("k" * 32)


def test_without_a_variable_the_key_is_the_one_that_the_stack_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PALLAS_LOG_KEY", raising=False)
    kept = kept_secret(tmp_path, "log-key")
    assert find_log_key(tmp_path) == LogKey(kept)


def test_without_a_key_the_refusal_names_the_variable_and_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PALLAS_LOG_KEY", raising=False)
    with pytest.raises(Refused, match="PALLAS_LOG_KEY") as refused:
        find_log_key(tmp_path)
    assert "log-key does not exist" in str(refused.value)
