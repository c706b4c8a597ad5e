"""The settings of the service. Names of the contracts (`DAEDALUS_…`, `MNEMOSYNE_…`, `SECRET_KEY`) are read, too."""

from collections.abc import Mapping
from typing import Annotated, Self, override
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from pallas_contracts.errors import Rejected
from pallas_credentials.settings import FernetKeys, PasswordHash
from pallas_postgres.engine import PostgresUrl
from pallas_runtime.settings import FILE_SUFFIX, Networks, Settings, variable
from workspaces.origins import Origins, Own

NAMES_OF_THE_CONTRACTS: Mapping[str, str] = {
    "DAEDALUS_MCP_HEALTH_INTERVAL": "health_interval",
    "DAEDALUS_RECONCILE_INTERVAL": "reconcile_interval",
    "MNEMOSYNE_FERNET_KEY": "fernet_key",
    "SECRET_KEY": "secret_key",
}
"""Names that the contracts give to settings. They win over the variables of the same fields."""


def _check_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise ValueError("must be an http:// or https:// address without credentials, query and fragment")
    return value


type ExactUrl = Annotated[str, AfterValidator(_check_url)]
"""An HTTP address as it is given."""

type Url = Annotated[str, AfterValidator(_check_url), AfterValidator(lambda url: url.rstrip("/"))]
"""An HTTP address, without a slash at its end."""


class WorkspacesSettings(Settings):
    """Settings of workspaces. Without a password hash nobody can log in."""

    postgres_url: PostgresUrl = Field(
        SecretStr("postgresql://postgres@127.0.0.1:5432/postgres"),
        description="database of this service; may hold a password",
    )
    postgres_pool: int = Field(20, ge=4, le=100, description="maximum number of connections to Postgres")
    admin_password_hash: PasswordHash = Field(None, description="Argon2 hash of the password of `admin`, who logs in")
    public_url: Url | None = Field(None, description="address of the console as browsers see it")
    trusted_proxies: Networks = Field(
        (), description="addresses and networks of proxies that name the caller in `X-Forwarded-For`"
    )
    fernet_key: FernetKeys = Field(
        None, description="Fernet keys for secrets in the database, separated by commas: the first encrypts"
    )
    secret_key: SecretStr | None = Field(
        None, min_length=32, description="the Fernet key is derived from this one if there is none; 32 characters"
    )
    accept_lost_jwts: bool = Field(
        False, description="start although secrets in the database cannot be opened, and give them up"
    )
    teams_url: Url = Field("http://127.0.0.1:23066", description="address of Mnemosyne, whose teams are managed")
    teams_password: SecretStr | None = Field(None, description="password of `daedalus-service` at Mnemosyne")
    library_url: ExactUrl | None = Field(None, description="MCP address of Mnemosyne, as teams are told to use it")
    library_server: str = Field("mnemosyne", min_length=1, description="name of that MCP server in the team's files")
    agent_token: SecretStr | None = Field(
        None, description="bearer for agents of `own_registries` whose instance has no token of its own"
    )
    own_registries: Own = Field(
        (), description="origins of this platform's registries: only their agents are sent `agent_token`"
    )
    registry_networks: Networks = Field(
        (), description="networks in which registries may be; none: any that is not link-local"
    )
    origins: Origins = Field(
        (), description="addresses that are reached elsewhere: `http://published=http://reached`, separated by commas"
    )
    health_interval: float = Field(60.0, ge=1, le=3600, description="seconds between two checks of an agent's health")
    reconcile_interval: float = Field(300.0, ge=1, le=86_400, description="seconds between two checks of all teams")

    @override
    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        named = {
            name: field for name, field in NAMES_OF_THE_CONTRACTS.items() if any(map(environ.get, _with_file(name)))
        }
        own = {each for field in named.values() for each in _with_file(variable(field))}
        given = {name: value for name, value in environ.items() if name not in own}
        for name, field in named.items():
            for there, here in zip(_with_file(name), _with_file(variable(field)), strict=True):
                given[here] = environ.get(there, "")
        try:
            return super().from_env(given)
        except Rejected as error:
            message = error.message
            for name, field in named.items():
                message = message.replace(variable(field), name)
            raise Rejected(message, code=error.code) from error


def _with_file(name: str) -> tuple[str, str]:
    return name, f"{name}{FILE_SUFFIX}"
