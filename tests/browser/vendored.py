"""The libraries of the console, as npm has them at the locked versions. `python -m tests.browser.vendored` writes them.

Only two things of a file change: modules import each other relatively, and references to source maps are left out.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from tests.browser.chromium import PACKAGES

CONSOLE = Path(__file__).parents[2] / "services" / "workspaces" / "src" / "workspaces" / "console"
VENDOR = CONSOLE / "vendor"

MODULES = {
    "preact.js": ("preact", "dist/preact.mjs"),
    "hooks.js": ("preact", "hooks/dist/hooks.mjs"),
    "htm.js": ("htm", "dist/htm.mjs"),
    "signals.js": ("@preact/signals", "dist/signals.mjs"),
    "signals-core.js": ("@preact/signals-core", "dist/signals-core.mjs"),
    "marked.js": ("marked", "lib/marked.esm.js"),
    "dompurify.js": ("dompurify", "dist/purify.es.mjs"),
}
SPECIFIERS = {
    "preact": "./preact.js",
    "preact/hooks": "./hooks.js",
    "@preact/signals-core": "./signals-core.js",
}
ICON_PACKAGE = "lucide-static"
_NAMES = """
activity arrow-down arrow-left arrow-left-right arrow-right arrow-up bot brain check chevron-down chevron-left chevron-right
chevrons-up-down circle-alert circle-check circle-dashed circle-help circle-x clock copy corner-down-left cpu diff
download ellipsis external-link eye eye-off file-text filter git-branch git-compare hash heart-pulse history image inbox
info key-round layers layout-grid link list loader-circle lock log-out menu message-square monitor moon panel-left pause
pencil play plug plus power refresh-cw rotate-ccw rotate-cw search send server settings shield shield-alert sparkles
square sun timer trash-2 triangle-alert unplug user users webhook wifi-off workflow wrench x zap
"""
ICONS = _NAMES.split()


def vendored() -> dict[str, str]:
    """The texts of all files below `vendor`, with `manifest.json`, by their paths."""
    PACKAGES.install()
    files = {name: _module(*where) for name, where in MODULES.items()}
    files["icons.svg"] = _sprite()
    packages = {
        package: [name for name, (of, _) in MODULES.items() if of == package] for package, _ in MODULES.values()
    }
    packages[ICON_PACKAGE] = ["icons.svg"]
    manifest = list[dict[str, Any]]()
    for package, names in packages.items():
        licence = f"licences/{package.removeprefix('@').replace('/', '-')}.txt"
        files[licence] = _read(package, "LICENSE")
        about = json.loads(_read(package, "package.json"))
        manifest.append(
            {
                "package": package,
                "version": about["version"],
                "licence": about["license"],
                "text": licence,
                "files": [{"file": name, "from": _source(name), "sha256": sha256(files[name])} for name in names],
            }
        )
    files["manifest.json"] = json.dumps({"packages": manifest}, indent=2) + "\n"
    return files


def sha256(text: str) -> str:
    """The checksum of a file with this text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def _read(package: str, path: str) -> str:
    return (PACKAGES.modules / package / path).read_text("utf-8")


def _source(name: str) -> str:
    return MODULES[name][1] if name in MODULES else "icons/*.svg"


def _module(package: str, path: str) -> str:
    text = re.sub(r"\n?//# sourceMappingURL=\S+\s*$", "\n", _read(package, path))
    return re.sub(r'(\bfrom ?|\bimport ?)"([^"./][^"]*)"', lambda hit: f'{hit[1]}"{SPECIFIERS[hit[2]]}"', text)


def _sprite() -> str:
    symbols = [f'<symbol id="{name}" viewBox="0 0 24 24">{_shapes(name)}</symbol>' for name in ICONS]
    return '<svg xmlns="http://www.w3.org/2000/svg">\n' + "\n".join(symbols) + "\n</svg>\n"


def _shapes(name: str) -> str:
    inside = _read(ICON_PACKAGE, f"icons/{name}.svg").split(">", 2)[2].rsplit("</svg>", 1)[0]
    return "".join(line.strip().replace(" />", "/>") for line in inside.splitlines())


if __name__ == "__main__":
    for path, text in vendored().items():
        (VENDOR / path).parent.mkdir(parents=True, exist_ok=True)
        (VENDOR / path).write_text(text, "utf-8")
