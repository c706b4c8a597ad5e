"""Settings from the environment, read once at the start and frozen.

Field `nats_url` is the variable `PALLAS_NATS_URL`. A value that does not fit stops the start with a line that names the
variable; the value itself is never shown, for it may be a secret.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, IPvAnyNetwork, SecretStr, ValidationError

from pallas_contracts.errors import Rejected

PREFIX = "PALLAS_"


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


class Settings(BaseModel):
    """What every process of Pallas can be told."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    nats_url: SecretStr = Field(
        SecretStr("nats://127.0.0.1:4222"), description="NATS servers, separated by commas; may hold a password"
    )
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(0, ge=0, le=65535, description="port to listen on; 0 picks a free one")
    instance: str | None = Field(None, description="name of this replica; made up when it is not set")
    drain_seconds: float = Field(20.0, ge=0, description="how long SIGTERM waits for what is under way")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="least level that is logged")
    log_format: Literal["json", "text"] = Field("json", description="json: a line each; text: for a terminal")
    stream_replicas: int = Field(1, ge=1, le=5, description="copies of every stream that this service declares")

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read the settings.

        Raises:
            Rejected: naming every variable that does not fit and why.
        """
        names = {f"{PREFIX}{name.upper()}": name for name in cls.model_fields}
        given = {field: environ[variable] for variable, field in names.items() if environ.get(variable, "") != ""}
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            faults = [f"{PREFIX}{str(fault['loc'][0]).upper()}: {fault['msg']}" for fault in error.errors()]
        raise Rejected("; ".join(faults), code="bad_settings")
