"""Settings from the environment, read once at the start and frozen.

Field `nats_url` is the variable `PALLAS_NATS_URL`, or the content of the file that `PALLAS_NATS_URL_FILE` names. A
value that does not fit stops the start with a line that names the variable; the value itself is never shown, for it may
be a secret.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, IPvAnyNetwork, SecretStr, ValidationError

from pallas_contracts.errors import Rejected

PREFIX = "PALLAS_"
FILE_SUFFIX = "_FILE"
"""Of a variable that names the file with the value, as secrets of containers come."""


def _split(separator: str) -> BeforeValidator:
    def split(value: object) -> object:
        return (
            tuple(part.strip() for part in value.split(separator) if part.strip()) if isinstance(value, str) else value
        )

    return BeforeValidator(split)


type Names = Annotated[tuple[str, ...], _split(",")]
"""A list separated by commas."""

type Folders = Annotated[tuple[Path, ...], _split(os.pathsep)]
"""A list of folders, separated as in PATH."""


type Networks = Annotated[tuple[IPvAnyNetwork, ...], _split(",")]
"""A list of addresses and networks (`10.0.0.0/8`), separated by commas."""


class BrokerSettings(BaseModel):
    """What whoever connects to the broker can be told."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    nats_url: SecretStr = Field(
        SecretStr("nats://127.0.0.1:4222"), description="NATS servers, separated by commas; may hold a password"
    )
    nats_seed: SecretStr | None = Field(None, description="seed of the nkey by which the broker knows this service")
    nats_ca: str | None = Field(
        None, description="certificates (PEM) of who signs the broker's; TLS is spoken from the first byte then"
    )

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read the settings.

        Raises:
            Rejected: naming every variable that does not fit and why.
        """
        given, faults = _given(environ, cls.model_fields)
        try:
            settings = cls.model_validate(given)
        except ValidationError as error:
            faults += [(str(fault["loc"][0]), fault["msg"]) for fault in error.errors()]
        else:
            if not faults:
                return settings
        raise Rejected("; ".join(f"{variable(field)}: {fault}" for field, fault in faults), code="bad_settings")


class Settings(BrokerSettings):
    """What every process of Pallas can be told."""

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(0, ge=0, le=65535, description="port to listen on; 0 picks a free one")
    instance: str | None = Field(None, description="name of this replica; made up when it is not set")
    max_connections: int = Field(
        5000, ge=1, description="connections of HTTP at once; one more ends that which waited longest for a request"
    )
    drain_seconds: float = Field(20.0, ge=0, description="how long SIGTERM waits for what is under way")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="least level that is logged")
    log_format: Literal["json", "text"] = Field("json", description="json: a line each; text: for a terminal")
    trace_content: bool = Field(False, description="put what is said, prompts and answers, into spans")
    stream_replicas: int = Field(1, ge=1, le=5, description="copies of every stream that this service declares")


def variable(field: str) -> str:
    """The variable that holds a field."""
    return f"{PREFIX}{field.upper()}"


def _given(environ: Mapping[str, str], fields: Iterable[str]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """What the environment says of each field, and what is wrong with how it says it."""
    given: dict[str, str] = {}
    faults: list[tuple[str, str]] = []
    for field in fields:
        try:
            value = value_of(environ, variable(field))
        except Rejected as error:
            faults.append((field, error.message))
        else:
            given |= {field: value} if value else {}
    return given, faults


def value_of(environ: Mapping[str, str], name: str) -> str:
    """The value of a variable or of its file; empty when neither is set.

    Raises:
        Rejected: both are set, or the file has no value.
    """
    value, path = environ.get(name, ""), environ.get(f"{name}{FILE_SUFFIX}", "")
    if not path:
        return value
    if value:
        raise Rejected(f"set either {name} or {name}{FILE_SUFFIX}, not both", code="bad_settings")
    try:
        content = Path(path).read_text("utf-8").strip()
    except OSError as error:
        raise Rejected(f"the file {path!r} cannot be read: {error.strerror}", code="bad_settings") from error
    except UnicodeDecodeError as error:
        raise Rejected(f"the file {path!r} is not UTF-8", code="bad_settings") from error
    if not content:
        raise Rejected(f"the file {path!r} is empty", code="bad_settings")
    return content
