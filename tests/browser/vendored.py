"""The libraries of the console, made of npm's packages at the locked versions.

`python -m tests.browser.vendored` writes them. Each module below `vendor` has what the console uses of a few packages,
so that a page needs few requests.
"""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from tests.browser.chromium import PACKAGES

CONSOLE = Path(__file__).parents[2] / "services" / "workspaces" / "src" / "workspaces" / "console"
VENDOR = CONSOLE / "vendor"

MODULES = {
    "ui.js": """
export { Fragment, h, render } from "preact";
export { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export { batch, computed, effect, signal, useComputed, useSignal } from "@preact/signals";
export { default as htm } from "htm";
""",
    "text.js": """
export { Marked } from "marked";
export { default as DOMPurify } from "dompurify";
""",
}
PACKAGES_OF = {
    "ui.js": ("preact", "@preact/signals", "@preact/signals-core", "htm"),
    "text.js": ("marked", "dompurify"),
    "icons.svg": ("lucide-static",),
}
_NAMES = """
activity arrow-down arrow-left arrow-left-right arrow-right arrow-up bell bot brain check chevron-right
chevrons-up-down circle-alert circle-check circle-help circle-x clock copy diff download ellipsis external-link eye
eye-off file-text filter git-branch git-compare heart-pulse history image inbox info key-round layers layout-grid link
list lock log-out menu message-square monitor moon panel-left paperclip pause pencil play plus refresh-cw rotate-ccw
rotate-cw search send server settings square sun timer trash-2 triangle-alert user users wifi-off wrench x
"""
ICONS = _NAMES.split()


@cache
def vendored() -> dict[str, str]:
    """The texts of all files below `vendor`, with `manifest.json`, by their paths."""
    PACKAGES.install()
    files = {name: _module(text) for name, text in MODULES.items()} | {"icons.svg": _sprite()}
    locked = json.loads((PACKAGES.folder / "package-lock.json").read_text("utf-8"))["packages"]
    manifest = list[dict[str, Any]]()
    for name, packages in PACKAGES_OF.items():
        parts = list[dict[str, str]]()
        for package in packages:
            licence = f"licences/{package.removeprefix('@').replace('/', '-')}.txt"
            files[licence] = _read(package, "LICENSE")
            about = json.loads(_read(package, "package.json"))
            integrity = locked[f"node_modules/{package}"]["integrity"]
            parts.append(
                {
                    "package": package,
                    "version": about["version"],
                    "integrity": integrity,
                    "licence": about["license"],
                    "text": licence,
                }
            )
        manifest.append({"file": name, "sha256": sha256(files[name]), "packages": parts})
    bundler = f"esbuild {locked['node_modules/esbuild']['version']}"
    files["manifest.json"] = json.dumps({"bundler": bundler, "files": manifest}, indent=2) + "\n"
    return files


def sha256(text: str) -> str:
    """The checksum of a file with this text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def _read(package: str, path: str) -> str:
    return (PACKAGES.modules / package / path).read_text("utf-8")


def _module(text: str) -> str:
    made = PACKAGES.run(PACKAGES.folder / "bundle.mjs", text)
    if made.returncode:
        raise RuntimeError(f"esbuild failed:\n{made.stdout}")
    return made.stdout


def _sprite() -> str:
    symbols = [f'<symbol id="{name}" viewBox="0 0 24 24">{_shapes(name)}</symbol>' for name in ICONS]
    return '<svg xmlns="http://www.w3.org/2000/svg">\n' + "\n".join(symbols) + "\n</svg>\n"


def _shapes(name: str) -> str:
    inside = _read("lucide-static", f"icons/{name}.svg").split(">", 2)[2].rsplit("</svg>", 1)[0]
    return "".join(line.strip().replace(" />", "/>") for line in inside.splitlines())


if __name__ == "__main__":
    for path, text in vendored().items():
        (VENDOR / path).parent.mkdir(parents=True, exist_ok=True)
        (VENDOR / path).write_text(text, "utf-8")
