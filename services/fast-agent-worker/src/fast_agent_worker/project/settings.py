"""fast-agent's settings as a worker uses them, from whichever file a program takes them.

The team's folder is the working directory, as where fast-agent runs it, and its files are left as they are: settings
are translated and forced when fast-agent has read them. `FastAgent(config_path=...)` comes through here, too.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from fast_agent import config

from pallas_teams.fast_agent.translate import expanded, force, translate

log = logging.getLogger(__name__)


@contextmanager
def settings_of_a_worker(folder: Path) -> Iterator[None]:
    """Make the folder the working directory, and have fast-agent read its settings as a worker uses them."""
    before, make, resolve = Path.cwd(), config._settings_from_sources, config.resolve_env_vars
    note = cache(lambda text: log.info("fast-agent's settings", extra={"note": text}))
    missing = cache(lambda name: log.warning("a variable of the settings is not set", extra={"variable": name}))

    def made(sources: Any, **options: Any) -> config.Settings:
        given = translate(sources.merged_settings)
        forced = force(given.settings)
        for each in (*given.notes, *forced.notes):
            note(each)
        return make(replace(sources, merged_settings=forced.settings), **options)

    config._settings_from_sources = made
    config.resolve_env_vars = lambda item: expanded(item, os.environ, missing)
    sys.dont_write_bytecode = True  # the folder is the team's, and may be read-only
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        config._settings_from_sources, config.resolve_env_vars = make, resolve
