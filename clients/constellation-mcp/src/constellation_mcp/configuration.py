"""Configuration, as RFC-018 has it: a file, then the environment, which wins.

The file is the one that was named, else `constellation-mcp.json` in the working directory, else that in `~/.config`. In
all its texts `${VAR}` is the variable of the environment.
"""

import getpass
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import httpx2
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic.alias_generators import to_camel

from pallas_cst.values import is_object

FILE = "constellation-mcp.json"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ENVIRONMENT = {
    "CONSTELLATION_URL": ("constellation", "baseUrl"),
    "CONSTELLATION_API_KEY": ("constellation", "apiKey"),
    "CONSTELLATION_AGENT_USER": ("agent", "user"),
}


class BadConfiguration(Exception):
    """The program cannot start with this configuration. The message names the field, and shows no value."""


def _url(text: str) -> str:
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL:
        raise ValueError("is no address") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("must be an address that begins with http:// or https://")
    if url.userinfo or url.query or url.fragment:
        raise ValueError("must have no credentials, query or fragment")
    return text.rstrip("/")


def _key(secret: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[!-~]+", secret.get_secret_value()):
        raise ValueError("must be printable ASCII characters without blanks")
    return secret


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel)


class Service(_Section):
    """Where the Constellation service is, and the key for it. Without an address only the documents can be used."""

    base_url: Annotated[str, AfterValidator(_url)] | None = None
    api_key: Annotated[SecretStr, AfterValidator(_key)] | None = None


class Agent(_Section):
    """Who calls. Without an `id` it is the name of the MCP client, without a `user` the account on this machine."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")] | None = None
    user: Annotated[str, Field(pattern=r"^[A-Za-z0-9._@+-]{1,128}$")] | None = None


class Cache(_Section):
    """How long answers of the service are kept, and how long a client may keep documents; in seconds."""

    module_ttl_seconds: Annotated[int, Field(ge=0, le=86_400)] = 30
    documentation_ttl_seconds: Annotated[int, Field(ge=0, le=31_536_000)] = 3600


class Features(_Section):
    """What the tools offer. `max_source_length` counts characters."""

    allow_cold_storage: bool = True
    allow_execution: bool = True
    max_source_length: Annotated[int, Field(ge=1, le=10_000_000)] = 50_000


class Configuration(_Section):
    """All of it."""

    constellation: Service = Service()
    agent: Agent = Agent()
    cache: Cache = Cache()
    features: Features = Features()

    def label(self, client: str | None) -> str:
        """Who calls, as `X-Constellation-Agent` says it; `client` is the name of the MCP client."""
        named = self.agent.id or re.sub(r"[^A-Za-z0-9._-]+", "-", client or "").strip("-")[:64]
        return f"{named or 'constellation-mcp'}:{self.agent.user or _account()}"


def _account() -> str:
    try:
        return re.sub(r"[^A-Za-z0-9._@+-]+", "-", getpass.getuser())[:128]
    except OSError:
        return "unknown"


def load(file: Path | None, environment: Mapping[str, str]) -> Configuration:
    """The configuration; `file` is the one that was named.

    Raises:
        BadConfiguration: the file that was named is not there, or something in the configuration is wrong.
    """
    found = file or next((each for each in (Path(FILE), Path.home() / ".config" / FILE) if each.is_file()), None)
    given: Any = {} if found is None else _expanded(_read(found), environment, "")
    for variable, (section, field) in _ENVIRONMENT.items():
        if environment.get(variable) and isinstance(given.setdefault(section, {}), dict):
            given[section][field] = environment[variable]
    try:
        return Configuration.model_validate(given)
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, each['loc']))}: {_reason(each['type'], each['msg'])}" for each in error.errors())
        raise BadConfiguration("; ".join(faults)) from None


def _reason(kind: str, message: str) -> str:
    return "no such field" if kind == "extra_forbidden" else message.removeprefix("Value error, ")


def _read(path: Path) -> dict[str, Any]:
    try:
        given = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadConfiguration(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise BadConfiguration(f"{path} is no JSON: {error}") from None
    if not is_object(given):
        raise BadConfiguration(f"{path} is no JSON object")
    return given


def _expanded(given: Any, environment: Mapping[str, str], place: str) -> Any:
    """What was given, with the variables of the environment in its texts."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in environment:
            raise BadConfiguration(f"{place}: the variable {found[1]} is not set")
        return environment[found[1]]

    if is_object(given):
        return {key: _expanded(each, environment, f"{place}.{key}".strip(".")) for key, each in given.items()}
    return _VARIABLE.sub(value, given) if isinstance(given, str) else given
