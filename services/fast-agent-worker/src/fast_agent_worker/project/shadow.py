"""The shadow of a team folder: links to everything in it, with its settings translated for a worker.

fast-agent reads its settings from the working directory, and writes sessions and logs there. So the process runs in the
shadow: the folder may be read-only, and nothing is written into it. Settings hold secrets, so the shadow can be read by
its owner only, and is removed at the end, or by the next process if this one is killed.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pallas_teams.fast_agent.config import CONFIG_NAMES, SECRETS_NAMES, config_files, config_folder
from pallas_teams.fast_agent.project import HOME
from pallas_teams.fast_agent.translate import Settings, read_settings, settings_of, translate

_SKIPPED = {"__pycache__", ".git", ".venv", *CONFIG_NAMES, *SECRETS_NAMES}
_PREFIX = "pallas-fast-agent-"


@contextmanager
def shadow_of(folder: Path, parent: Path | None, environ: Mapping[str, str]) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Make the shadow and change into it; yields its path, and what was translated or forced, as sentences.

    Raises:
        TeamFaults: a file with settings cannot be read.
    """
    place = (parent or Path(tempfile.gettempdir())) / f"{_PREFIX}{os.getuid()}"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_left(place)
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    shadow, before = place / f"{name}-{os.getpid()}", Path.cwd()
    shadow.mkdir(mode=0o700)
    try:
        _link(folder, shadow)
        notes = _write_settings(folder, shadow, environ)
        os.chdir(shadow)
        yield shadow, notes
    finally:
        os.chdir(before)
        shutil.rmtree(shadow, ignore_errors=True)


def _remove_left(place: Path) -> None:
    """Remove the shadows of processes that are gone."""
    for left in place.iterdir():
        _, _, pid = left.name.rpartition("-")
        if pid.isdecimal() and not Path("/proc", pid).exists():
            shutil.rmtree(left, ignore_errors=True)


def _link(folder: Path, shadow: Path) -> None:
    for entry in folder.iterdir():
        if entry.name in _SKIPPED:
            continue
        if entry.name == HOME and entry.is_dir():
            (shadow / HOME).mkdir(mode=0o700)
            _link(entry, shadow / HOME)
        else:
            (shadow / entry.name).symlink_to(entry)


def _write_settings(folder: Path, shadow: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    configs, secrets = config_files(folder)
    where = shadow / config_folder(folder).relative_to(folder)
    used = settings_of(folder, environ)
    _write(where / (configs[0].name if configs else CONFIG_NAMES[0]), used.settings)
    if secrets:
        _write(where / secrets[0].name, translate(read_settings(secrets), environ).settings)
    return used.notes


def _write(path: Path, settings: Settings) -> None:
    """Write settings as JSON, which is YAML."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as out:
        json.dump(settings, out, default=str)
