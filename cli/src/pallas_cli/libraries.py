"""Sends documents to library-search: which files of a folder, and the result of each."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

import httpx

from pallas_cli.plain_text import print_plain
from pallas_cli.refused import Refused, WrongUsage, not_reached
from pallas_cli.waiting import shown

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


AT_ONCE = 4
TRIES = 4
SECONDS = 420.0
"""Timeout of an upload. A large PDF takes up to a minute to parse, and waits for the uploads before it."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where documents go."""

    url: str
    password: str
    library: str
    collection: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one file: `created`, `updated`, `unchanged` or `failed`."""

    path: str
    status: str
    document: str | None = None
    chunks: int = 0
    error: str | None = None

    def line(self) -> str:
        """The result as a line of text."""
        detail = f": {self.error}" if self.error else f" ({self.chunks} chunk{'' if self.chunks == 1 else 's'})"
        return f"{self.status:<9} {self.path}{detail}"


async def ingest_files(target: Target, found: FoundFiles, *, as_json: bool) -> int:
    """Upload all files; return the number of failures.

    Raises:
        Refused: library-search cannot be reached, the password is wrong, or the library does not exist.
    """
    with shown(f"adding {len(found.documents)} documents"):
        outcomes = await upload(target, found, lambda it: None if as_json else print_plain(it.line()))
    counted = Counter(outcome.status for outcome in outcomes)
    if as_json:
        files = [asdict(outcome) for outcome in sorted(outcomes, key=lambda outcome: outcome.path)]
        where = {"library": target.library, "collection": target.collection}
        print(json.dumps({**where, **_counts(counted), "files": files, "skipped": found.skipped}, ensure_ascii=False))
    else:
        counts = ", ".join(f"{count} {status}" for status, count in _counts(counted).items() if count)
        rest = f"; {len(found.skipped)} skipped: no documents" if found.skipped else ""
        print_plain(f"{counts}{rest}")
    return counted["failed"]


def _counts(counted: Counter[str]) -> dict[str, int]:
    return {status: counted[status] for status in ("created", "updated", "unchanged", "failed")}


async def upload(
    target: Target, found: FoundFiles, on_outcome: Callable[[Outcome], None] = lambda _: None
) -> list[Outcome]:
    """Upload all files; `on_outcome` is called with each result.

    Raises:
        Refused: as for `ingest_files`.
    """
    outcomes: list[Outcome] = []
    waiting = iter(found.documents.items())
    auth = ("admin", target.password)
    async with httpx.AsyncClient(base_url=target.url, auth=auth, timeout=SECONDS) as http:

        async def work() -> None:
            for path, file in waiting:
                outcome = await _put(http, target, path, file)
                outcomes.append(outcome)
                on_outcome(outcome)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    group.create_task(work())
        except* Refused as refusals:
            raise refusals.exceptions[0] from None
    return outcomes


async def _put(http: httpx.AsyncClient, target: Target, path: str, file: Path) -> Outcome:
    try:
        content = await asyncio.to_thread(file.read_bytes)
    except OSError as error:
        return Outcome(path, "failed", error=f"cannot be read: {error.strerror}")
    query = {"collection": target.collection, "path": path}
    route = f"/admin/api/documents/{quote(target.library, safe='')}"
    for left in range(TRIES, 0, -1):
        try:
            answer = await http.put(route, params=query, content=content)
        except httpx.HTTPError as error:
            raise not_reached(f"library-search at {target.url}", error) from error
        if answer.status_code != 503 or left == 1:
            return _outcome(target, path, answer)
        await asyncio.sleep(float(answer.headers.get("retry-after", "1")))
    raise AssertionError("the last try ends the loop")


def _outcome(target: Target, path: str, answer: httpx.Response) -> Outcome:
    try:
        body = answer.json()
        if answer.is_success:
            return Outcome(path, body["status"], body["document"], body["chunks"])
        sentence, code = body["error"], body.get("code")
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"{target.url} answers {answer.status_code}, but it is not library-search") from error
    match answer.status_code, code:
        case 401, _:
            raise Refused("the password of the account `admin` is wrong (PALLAS_ADMIN_PASSWORD, --data)")
        case 404, "no_library":
            raise Refused(sentence)
        case 404 | 405, _:
            raise Refused(f"{target.url} is not library-search")
        case _:
            return Outcome(path, "failed", error=sentence)
