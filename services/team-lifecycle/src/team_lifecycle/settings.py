"""The settings of the service."""

from typing import Literal

from pydantic import Field, SecretStr

from pallas_credentials.settings import FernetKeys, PasswordHash
from pallas_postgres.engine import PostgresUrl
from pallas_runtime.settings import Settings


class TeamLifecycleSettings(Settings):
    """Settings of team-lifecycle. An account without a password hash is closed."""

    postgres_url: PostgresUrl = Field(
        SecretStr("postgresql://postgres@127.0.0.1:5432/postgres"),
        description="database of this service; may hold a password",
    )
    redis_url: SecretStr = Field(
        SecretStr("redis://127.0.0.1:6379"), description="Redis for the cache of look-ups; may hold a password"
    )
    service_password_hash: PasswordHash = Field(None, description="Argon2 hash of the password of `daedalus-service`")
    admin_password_hash: PasswordHash = Field(None, description="Argon2 hash of the password of `admin`")
    fernet_keys: FernetKeys = Field(
        None, description="Fernet keys for signing keys, separated by commas: the first encrypts, all decrypt; required"
    )
    jwt_algorithm: Literal["HS256", "EdDSA"] = Field("HS256", description="algorithm that signs new team JWTs")
    postgres_pool: int = Field(10, ge=3, le=100, description="maximum number of connections to Postgres")
