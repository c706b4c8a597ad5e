from datetime import timedelta
from pathlib import Path
from typing import TypedDict

class RetryConfig(TypedDict, total=False):
    max_retries: int
    retry_timeout: timedelta

class ObjectStore: ...

class LocalStore(ObjectStore):
    def __init__(self, prefix: str | Path, *, mkdir: bool = False) -> None: ...

def from_url(url: str, *, retry_config: RetryConfig = ...) -> ObjectStore: ...
