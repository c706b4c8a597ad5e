"""Settings from the environment, read once at start and frozen.

The field `nats_url` is the variable `PALLAS_NATS_URL`, or the content of the file that `PALLAS_NATS_URL_FILE` names. An
invalid value stops the start with an error that names the variable. The error never shows the value, which may be a
secret.
"""

import logging
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    IPvAnyNetwork,
    SecretStr,
    ValidationError,
)

from pallas_contracts.errors import Rejected
from pallas_contracts.keyed import LogKey
from pallas_runtime.http.bearers import AuthMode, open_on_loopback_only

log = logging.getLogger(__name__)

PREFIX = "PALLAS_"
FILE_SUFFIX = "_FILE"
"""Suffix of a variable that names a file with the value, as containers provide secrets."""


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


type Ports = Annotated[tuple[Annotated[int, Field(ge=1, le=65535)], ...], _split(",")]
"""A list of ports, separated by commas."""


class BrokerSettings(BaseModel):
    """Settings of everything that connects to the broker."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    nats_url: SecretStr = Field(
        SecretStr("nats://127.0.0.1:4222"), description="NATS servers, separated by commas; may contain a password"
    )
    nats_seed: SecretStr | None = Field(None, description="seed of the nkey with which this service authenticates")
    nats_ca: str | None = Field(
        None, description="CA certificates (PEM) for the broker; the connection then starts with TLS"
    )

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read the settings.

        Raises:
            Rejected: names every invalid variable and the reason.
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
    """Settings of every Pallas process."""

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(0, ge=0, le=65535, description="port to listen on; 0 picks a free one")
    instance: str | None = Field(None, description="name of this replica; generated when not set")
    revision: str = Field(
        "unknown", max_length=64, description="commit that this was built from, for `pallas_build_info`"
    )
    max_connections: int = Field(
        5000, ge=1, description="HTTP connections at once; one more closes the connection that is idle longest"
    )
    drain_seconds: float = Field(20.0, ge=0, description="seconds that work in progress may take after SIGTERM")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="lowest level that is logged")
    log_format: Literal["json", "text"] = Field("json", description="json: one object per line; text: for a terminal")
    trace_content: bool = Field(False, description="record content (prompts, arguments, answers) in spans")
    stream_replicas: int = Field(1, ge=1, le=5, description="replicas of every stream that this service declares")


class ExecutorSettings(Settings):
    """Settings of a process that executes turns."""

    hold: bool = Field(False, description="take no turns, as after a restore")
    content_seconds: float = Field(
        900.0, ge=0, description="how long content is kept after a turn's end; 0: only until the answer is delivered"
    )


class CallerSettings(Settings):
    """Settings of a service that callers reach, with their bearers."""

    allowed_hosts: Names = Field((), description="additional Host headers to accept; '*' accepts all")
    allowed_origins: Names = Field((), description="additional Origin headers to accept")
    allow_unauthenticated: bool = Field(False, description="allow PALLAS_GATEWAY_AUTH=off on any PALLAS_HOST")
    gateway_auth: Annotated[AuthMode, AfterValidator(open_on_loopback_only)] = Field(
        "off", validate_default=True, description="off: bearers are ignored; optional: checked; required: always needed"
    )


class StoreSettings(Settings):
    """Settings of a process that admits turns."""

    store_bytes: int = Field(32 * 1024**3, ge=1024**2, description="what the broker may store (`max_file_store`)")
    team_store_share: float = Field(0.5, gt=0, le=1, description="the part of it that the turns of one team may take")


def log_key_of(value: SecretStr | None, without: str) -> LogKey:
    """The key of `PALLAS_LOG_KEY`, or one of this process alone, of which the log says what happens `without` it."""
    if value is None:
        log.info("no PALLAS_LOG_KEY: %s, until it ends", without)
        return LogKey(secrets.token_hex(32))
    return LogKey(value.get_secret_value())


def variable(field: str) -> str:
    """The environment variable of a field."""
    return f"{PREFIX}{field.upper()}"


def _given(environ: Mapping[str, str], fields: Iterable[str]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The values of the fields that the environment sets, and the faults of those that cannot be read."""
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
        Rejected: both are set, or the file is empty or cannot be read.
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
