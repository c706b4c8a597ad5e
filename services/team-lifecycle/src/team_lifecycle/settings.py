"""What the service can be told."""

from typing import Literal

from pydantic import Field, SecretStr

from pallas_credentials.settings import FernetKeys, PasswordHash
from pallas_postgres.settings import PostgresUrl
from pallas_runtime.settings import Settings


class TeamLifecycleSettings(Settings):
    """Settings of a team-lifecycle. An account without a password hash is closed."""

    postgres_url: PostgresUrl = Field(
        SecretStr("postgresql://postgres@127.0.0.1:5432/postgres"), description="the truth; may hold a password"
    )
    redis_url: SecretStr = Field(
        SecretStr("redis://127.0.0.1:6379"), description="the cache of look-ups; may hold a password"
    )
    service_password_hash: PasswordHash = Field(None, description="Argon2 hash of the password of `daedalus-service`")
    admin_password_hash: PasswordHash = Field(None, description="Argon2 hash of the password of `admin`")
    fernet_keys: FernetKeys = Field(
        None, description="encrypt signing keys, separated by commas: the first seals, all open; required"
    )
    jwt_algorithm: Literal["HS256", "EdDSA"] = Field("HS256", description="how new team JWTs are signed")
    postgres_pool: int = Field(10, ge=3, le=100, description="connections to Postgres at most")
