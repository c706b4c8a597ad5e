"""Finds documents: readable files below a folder, except hidden files and links that lead outside."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pallas_cli.refused import WrongUsage

ENDINGS = (".md", ".markdown", ".txt", ".text", ".pdf")
"""Endings of files that library-search can read."""


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Documents by their path in the collection, and the names of skipped files."""

    documents: dict[str, Path]
    skipped: tuple[str, ...]


def find_files(paths: Iterable[Path]) -> FoundFiles:
    """Find all documents.

    Raises:
        Refused: a path does not exist or is no document, or two files have one path in the collection; one line each.
    """
    documents: dict[str, Path] = {}
    skipped: list[str] = []
    faults: list[str] = []
    for path in paths:
        if not path.exists():
            faults.append(f"{path}: does not exist")
        elif path.is_file() and not _is_document(path):
            faults.append(f"{path}: unsupported file type; supported are {', '.join(ENDINGS)}")
        for name, file in _below(path):
            if not _is_document(file) or not file.resolve().is_relative_to(path.resolve()):
                skipped.append(name)
            elif documents.setdefault(name, file).resolve() != file.resolve():
                faults.append(f"{file} and {documents[name]} would both get the path {name!r}")
    if faults:
        raise WrongUsage(*faults)
    if not documents:
        raise WrongUsage("no documents found; supported files end in " + ", ".join(ENDINGS))
    return FoundFiles(documents, tuple(skipped))


def _is_document(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS


def _below(path: Path) -> Iterator[tuple[str, Path]]:
    """Every file below a folder in order, with its relative path; or the file itself, with its name."""
    if path.is_file():
        yield path.name, path
        return
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path)
        if file.is_file() and not any(part.startswith(".") for part in name.parts):
            yield name.as_posix(), file
