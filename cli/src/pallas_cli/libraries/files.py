"""Which files are documents: all below a folder of a kind that can be read, but what is hidden or leads outside."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pallas_cli.refused import Refused

ENDINGS = (".md", ".markdown", ".txt", ".text", ".pdf")
"""What the library search reads."""


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Files by the path under which they are to stand, and files that are no documents."""

    documents: dict[str, Path]
    skipped: tuple[str, ...]


def find_files(paths: Iterable[Path]) -> FoundFiles:
    """Find all documents.

    Raises:
        Refused: naming each path that is not there or no document, and what would stand under one path.
    """
    documents: dict[str, Path] = {}
    skipped: list[str] = []
    faults: list[str] = []
    for path in paths:
        if not path.exists():
            faults.append(f"{path}: does not exist")
        elif path.is_file() and not _is_document(path):
            faults.append(f"{path}: files of this kind are not read; {', '.join(ENDINGS)} are")
        for name, file in _below(path):
            if not _is_document(file) or not file.resolve().is_relative_to(path.resolve()):
                skipped.append(name)
            elif documents.setdefault(name, file).resolve() != file.resolve():
                faults.append(f"{file} and {documents[name]} would both stand under {name!r}")
    if faults:
        raise Refused(*faults)
    if not documents:
        raise Refused("there is no document: files that end in " + ", ".join(ENDINGS) + " are")
    return FoundFiles(documents, tuple(skipped))


def _is_document(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS


def _below(path: Path) -> Iterator[tuple[str, Path]]:
    """Every file of a folder in order, or the file itself, with its name below it."""
    if path.is_file():
        yield path.name, path
        return
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path)
        if file.is_file() and not any(part.startswith(".") for part in name.parts):
            yield name.as_posix(), file
