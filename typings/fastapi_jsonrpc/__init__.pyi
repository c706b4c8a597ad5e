from collections.abc import Callable
from typing import Any

from fastapi import FastAPI

class Entrypoint:
    def __init__(self, path: str) -> None: ...
    def method[F: Callable[..., Any]](self, *, name: str) -> Callable[[F], F]: ...

class API(FastAPI):
    def bind_entrypoint(self, ep: Entrypoint) -> None: ...
