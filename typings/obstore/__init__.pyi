"""The part of obstore that is used; its own types are too wide to be known."""

from collections.abc import Buffer, Iterator, Sequence
from typing import TypedDict

from .store import ObjectStore

class ObjectMeta(TypedDict):
    path: str
    size: int

class ListStream:
    def collect(self) -> Sequence[ObjectMeta]: ...

class GetResult:
    def stream(self) -> Iterator[Buffer]: ...

def put(store: ObjectStore, path: str, file: Iterator[bytes] | bytes) -> object: ...
def get(store: ObjectStore, path: str) -> GetResult: ...
def list(store: ObjectStore, prefix: str | None = None) -> ListStream: ...  # noqa: A001 - its name there
def delete(store: ObjectStore, path: str) -> None: ...
