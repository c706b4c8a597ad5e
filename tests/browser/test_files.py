"""The files of the console, as far as they are checked without a browser: libraries, types, imports, icons, sizes."""

import gzip
import itertools
import json
import re
from pathlib import Path

from tests.browser.bundled import FOLDER, bundled
from tests.browser.chromium import PACKAGES
from tests.browser.typed import TYPES, typed
from tests.browser.vendored import CONSOLE, VENDOR, sha256, vendored

_STATEMENT = re.compile(r'(?:^|[;}\n])(?:im|ex)port\b[^"\';()=]*?["\']([^"\']+)["\']')


def test_libraries_have_the_checksums_of_the_manifest() -> None:
    manifest = json.loads((VENDOR / "manifest.json").read_text("utf-8"))
    sums = {each["file"]: each["sha256"] for each in manifest["files"]}
    assert sums == {file: sha256((VENDOR / file).read_text("utf-8")) for file in sums}
    assert set(sums) == {file.name for file in VENDOR.iterdir() if file.suffix in {".js", ".svg"}}


def test_libraries_are_those_of_npm() -> None:
    for path, text in vendored().items():
        assert (VENDOR / path).read_text("utf-8") == text, f"{path}: run python -m tests.browser.vendored"


def test_the_types_are_those_of_the_api() -> None:
    assert TYPES.read_text("utf-8") == typed(), "run python -m tests.browser.typed"


def test_the_type_checker_finds_nothing() -> None:
    PACKAGES.install()
    checked = PACKAGES.run(PACKAGES.modules / "typescript" / "bin" / "tsc", "-p", ".")
    assert checked.returncode == 0, checked.stdout


def test_modules_import_each_other_relatively_and_every_file_exists() -> None:
    for file in _ours():
        for specifier in _STATEMENT.findall(file.read_text("utf-8")):
            assert specifier.startswith("."), f"{file.name} imports {specifier}"
            assert (file.parent / specifier).is_file(), f"{file.name} imports {specifier}"


def test_the_bundle_is_that_of_the_sources() -> None:
    there = {path.name: path.read_bytes() for path in FOLDER.iterdir()}
    assert there == bundled(), "run python -m tests.browser.bundled"


def test_the_page_names_all_that_its_script_imports() -> None:
    named = set(re.findall(r'href="/assets/([^"]+\.js)"', (CONSOLE / "index.html").read_text("utf-8"))) | {"app.js"}
    assert named == _imported("app.js")


def test_no_style_sheet_of_a_view_changes_what_another_one_styles() -> None:
    # All that were loaded stay: a class of two of them would look as the path of the visitor wants.
    styled = {name: _classes(CONSOLE / name) for name in ("admin.css", "chat.css", "turns.css")}
    for one, other in itertools.combinations(styled, 2):
        assert not styled[one] & styled[other], f"{one} and {other} both style {styled[one] & styled[other]}"


def test_nothing_needs_what_the_policy_forbids() -> None:
    page = (CONSOLE / "index.html").read_text("utf-8")
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*src=)", page)
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert all((CONSOLE / each.removeprefix("/assets/")).is_file() for each in addresses)


def test_every_icon_that_is_used_is_there() -> None:
    sprite = (VENDOR / "icons.svg").read_text("utf-8")
    for file in _ours():
        for name in re.findall(r"(?:icon|Icon name)[:=] ?\"([a-z-]+)\"", file.read_text("utf-8")):
            assert f'id="{name}"' in sprite, f"{file.name}: {name}"


def test_the_first_page_is_small() -> None:
    """With gzip, of everything that the list of workspaces needs."""
    page = FOLDER / "index.html"
    named = re.findall(r'(?:src|href)="/assets/([^"]+)"', page.read_text("utf-8"))
    files = [page, *(FOLDER / each if (FOLDER / each).exists() else CONSOLE / each for each in named)]
    files += [*FOLDER.glob("workspaces-*.js"), CONSOLE / "vendor" / "icons.svg"]
    assert len(files) <= 9
    assert sum(len(gzip.compress(file.read_bytes())) for file in files) < 40_000


def _ours() -> list[Path]:
    return [file for file in CONSOLE.rglob("*.js") if not {VENDOR, FOLDER} & set(file.parents)]


def _text(name: str) -> str:
    return (CONSOLE / name).read_text("utf-8")


def _imported(name: str) -> set[str]:
    """The module and all that it imports."""
    found, waiting = set[str](), [name]
    while waiting:
        one = waiting.pop()
        found.add(one)
        for specifier in _STATEMENT.findall(_text(one)):
            path = str((CONSOLE / one).parent.joinpath(specifier).resolve().relative_to(CONSOLE))
            waiting += [path] if path not in found else []
    return found


def _classes(sheet: Path) -> set[str]:
    """The classes with which selectors begin: what is inside of those belongs to them."""
    rules = re.findall(r"([^{}]+)\{", re.sub(r"/\*.*?\*/", "", sheet.read_text("utf-8"), flags=re.DOTALL))
    starts = (re.match(r"\s*\.([\w-]+)", selector) for rule in rules for selector in rule.split(","))
    return {start[1] for start in starts if start}
