"""Settings: how they are read from variables and files, and the messages when one does not fit."""

import os
from pathlib import Path

import pytest
from pydantic import Field, SecretStr

from pallas_contracts.errors import Rejected
from pallas_runtime.settings import Folders, Names, Settings


class Example(Settings):
    """A service's own settings."""

    slots: int = Field(4, ge=1)
    token: SecretStr | None = None
    teams: Folders = ()
    hosts: Names = ()
    needed: str = "given"


class Needy(Settings):
    """Something has to be given."""

    needed: str


def test_unset_and_empty_variables_give_the_default() -> None:
    assert Example.from_env({}) == Example.model_validate({})
    assert Example.from_env({"PALLAS_SLOTS": ""}).slots == 4


def test_variables_with_the_prefix_are_read() -> None:
    environ = {"PALLAS_SLOTS": "9", "PALLAS_HOSTS": "a, b,,c", "PALLAS_TEAMS": f"/x{os.pathsep}/y", "SLOTS": "1"}
    settings = Example.from_env(environ)
    assert (settings.slots, settings.hosts, settings.teams) == (9, ("a", "b", "c"), (Path("/x"), Path("/y")))


def test_every_variable_with_a_bad_value_is_named_and_no_value_is_shown() -> None:
    environ = {"PALLAS_SLOTS": "hunter2", "PALLAS_PORT": "hunter2", "PALLAS_LOG_FORMAT": "hunter2"}
    with pytest.raises(Rejected) as refused:
        Example.from_env(environ)
    for name in environ:
        assert name in refused.value.message
    assert "hunter2" not in refused.value.message
    assert "hunter2" not in repr(refused.value)


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(Rejected, match="PALLAS_NEEDED"):
        Needy.from_env({})


def test_a_secret_is_not_printed() -> None:
    settings = Example.from_env({"PALLAS_TOKEN": "hunter2"})
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in settings.model_dump_json()


@pytest.mark.parametrize(("name", "value"), [("PALLAS_PORT", "65536"), ("PALLAS_DRAIN_SECONDS", "-1")])
def test_a_number_out_of_range_is_refused(name: str, value: str) -> None:
    with pytest.raises(Rejected, match=name):
        Example.from_env({name: value})


def test_the_url_of_the_broker_is_not_printed() -> None:
    settings = Settings.from_env({"PALLAS_NATS_URL": "nats://me:hunter2@broker:4222"})
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in settings.model_dump_json()
    assert settings.nats_url.get_secret_value() == "nats://me:hunter2@broker:4222"


def test_a_value_can_be_read_from_a_file(tmp_path: Path) -> None:
    secret, slots = tmp_path / "token", tmp_path / "slots"
    secret.write_text("hunter2\n", "utf-8")
    slots.write_text("9", "utf-8")
    settings = Example.from_env({"PALLAS_TOKEN_FILE": str(secret), "PALLAS_SLOTS_FILE": str(slots), "PALLAS_TOKEN": ""})
    assert settings.token == SecretStr("hunter2")
    assert settings.slots == 9


def test_a_variable_and_its_file_variable_exclude_each_other(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("hunter2", "utf-8")
    with pytest.raises(Rejected, match="PALLAS_TOKEN: set either PALLAS_TOKEN or PALLAS_TOKEN_FILE") as refused:
        Example.from_env({"PALLAS_TOKEN": "hunter3", "PALLAS_TOKEN_FILE": str(secret)})
    assert "hunter" not in refused.value.message


@pytest.mark.parametrize(
    ("content", "fault"), [(None, "No such file"), (b"", "is empty"), (b"\n", "is empty"), (b"\xff", "not UTF-8")]
)
def test_a_file_without_a_readable_value_is_named(tmp_path: Path, content: bytes | None, fault: str) -> None:
    secret = tmp_path / "token"
    if content is not None:
        secret.write_bytes(content)
    with pytest.raises(Rejected, match=fault) as refused:
        Example.from_env({"PALLAS_TOKEN_FILE": str(secret)})
    assert "PALLAS_TOKEN: " in refused.value.message
    assert str(secret) in refused.value.message


def test_faults_of_files_and_of_values_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(Rejected) as refused:
        Example.from_env({"PALLAS_TOKEN_FILE": str(tmp_path / "none"), "PALLAS_PORT": "hunter2"})
    assert "PALLAS_TOKEN: " in refused.value.message
    assert "PALLAS_PORT: " in refused.value.message


def test_a_bad_value_in_a_file_is_not_shown(tmp_path: Path) -> None:
    secret = tmp_path / "slots"
    secret.write_text("hunter2", "utf-8")
    with pytest.raises(Rejected, match="PALLAS_SLOTS") as refused:
        Example.from_env({"PALLAS_SLOTS_FILE": str(secret)})
    assert "hunter2" not in refused.value.message
