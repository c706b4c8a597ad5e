"""Installed from wheels, without the checkout: `pallas up` starts everything and answers a first turn."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.contract.tree import ROOT, packages
from tests.e2e.stack import free_port_base
from tests.integration.deploy.bytecode import link_bytecode
from tests.requirements import requirement

UV = shutil.which("uv") or str(ROOT / ".tools" / "uv" / "bin" / "uv")


def uv(*words: str) -> None:
    """Run uv in the checkout."""
    subprocess.run([UV, *words, "--quiet"], cwd=ROOT, check=True, timeout=100)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel of every package, as `make dist` makes them."""
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--all-packages", "--wheel", "--out-dir", str(folder))
    return folder


@pytest.fixture(scope="module")
def installed(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """An environment with `pallas-cli[stack]`: ours from the wheels, the others as the lock file has them, which are in
    uv's cache as a rule. Nothing of the checkout is in it."""
    home = tmp_path_factory.mktemp("home")
    environment, locked = home / "env", home / "pylock.toml"
    chosen = ("--package", "pallas-cli", "--extra", "stack", "--no-default-groups", "--no-emit-workspace")
    uv("export", "--frozen", *chosen, "--format", "pylock.toml", "--output-file", str(locked))
    uv("venv", "--python", sys.executable, str(environment))
    here = ("--python", str(environment))
    uv("pip", "install", *here, "--requirements", str(locked))
    uv("pip", "install", *here, "--no-index", "--no-deps", *map(str, wheels.glob("pallas_*.whl")))
    uv("pip", "check", *here)
    link_bytecode(environment)
    yield environment / "bin"
    shutil.rmtree(environment)


@requirement("K-cli-3")
def test_every_package_has_a_wheel_with_its_description(wheels: Path) -> None:
    names = {wheel.name.partition("-")[0] for wheel in wheels.glob("*.whl")}
    expected = {package.folder.name.replace("-", "_") for package in packages()}
    assert {name.removeprefix("pallas_") for name in names} == expected | {"redis_server"}


def test_the_stack_of_the_wheels_answers_its_first_turn(installed: Path, tmp_path: Path) -> None:
    environ = {"PATH": os.defpath, "HOME": str(tmp_path), "COLUMNS": "200"}
    words = ("up", "--no-auth", "--with", "redis,postgres", "--port-base", str(free_port_base()))
    with subprocess.Popen(
        [installed / "pallas", *words], cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        said, doctor = "", None
        for line in process.stdout:
            said += line.decode()
            if re.search(r"  answered$|failed$", said.rstrip()):
                doctor = subprocess.run(
                    [installed / "pallas", "doctor"], cwd=tmp_path, env=environ, capture_output=True, timeout=30
                )
                process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0, said
    assert doctor is not None, said
    assert doctor.returncode == 0, doctor.stdout.decode()
    assert "19 + 23" in said or "42" in said, said
    assert str(ROOT) not in said
