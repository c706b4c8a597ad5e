"""The console in few files: `python -m tests.browser.bundled` makes them of its modules and style sheets.

The service serves them as long as they are those of the sources; of changed sources it serves the sources.
"""

import shutil
import tempfile
from pathlib import Path

from tests.browser.chromium import PACKAGES
from tests.browser.vendored import CONSOLE

from workspaces.http.console import BUNDLE, SOURCES, Console

FOLDER = CONSOLE / BUNDLE


def bundled() -> dict[str, bytes]:
    """The files of the bundle, by name."""
    PACKAGES.install()
    with tempfile.TemporaryDirectory() as folder:
        made = PACKAGES.run(PACKAGES.folder / "console.mjs", str(CONSOLE), folder)
        if made.returncode:
            raise RuntimeError(f"esbuild failed:\n{made.stdout}")
        files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    return files | {SOURCES: Console(CONSOLE).sources.encode()}


if __name__ == "__main__":
    made = bundled()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    for name, content in made.items():
        (FOLDER / name).write_bytes(content)
