"""What the service can be told."""

from typing import Annotated, Literal

from argon2 import extract_parameters
from argon2.exceptions import InvalidHashError
from cryptography.fernet import Fernet
from pydantic import AfterValidator, Field, SecretStr
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from pallas_runtime.settings import Settings


def _check_hash(value: SecretStr | None) -> SecretStr | None:
    try:
        if value is not None:
            extract_parameters(value.get_secret_value())
    except InvalidHashError as error:
        raise ValueError("must be a hash by Argon2, as argon2.PasswordHasher().hash(password) makes it") from error
    return value


def _check_fernet(value: SecretStr | None) -> SecretStr | None:
    for key in fernet_keys(value):
        try:
            Fernet(key)
        except ValueError as error:
            raise ValueError("must be keys as Fernet.generate_key() makes them, separated by commas") from error
    return value


def _check_postgres(value: SecretStr) -> SecretStr:
    try:
        scheme = make_url(value.get_secret_value()).get_backend_name()
    except ArgumentError:
        scheme = ""
    if scheme not in ("postgresql", "postgres"):
        raise ValueError("must be a postgresql:// address")
    return value


def fernet_keys(value: SecretStr | None) -> list[str]:
    """The keys of a setting that lists them."""
    given = value.get_secret_value() if value is not None else ""
    return [key.strip() for key in given.split(",") if key.strip()]


type PasswordHash = Annotated[SecretStr | None, AfterValidator(_check_hash)]


class TeamLifecycleSettings(Settings):
    """Settings of a team-lifecycle. An account without a password hash is closed."""

    postgres_url: Annotated[SecretStr, AfterValidator(_check_postgres)] = Field(
        SecretStr("postgresql://postgres@127.0.0.1:5432/postgres"), description="the truth; may hold a password"
    )
    redis_url: SecretStr = Field(
        SecretStr("redis://127.0.0.1:6379"), description="the cache of look-ups; may hold a password"
    )
    service_password_hash: PasswordHash = Field(None, description="Argon2 hash of the password of `daedalus-service`")
    admin_password_hash: PasswordHash = Field(None, description="Argon2 hash of the password of `admin`")
    fernet_keys: Annotated[SecretStr | None, AfterValidator(_check_fernet)] = Field(
        None, description="encrypt signing keys, separated by commas: the first seals, all open; required"
    )
    jwt_algorithm: Literal["HS256", "EdDSA"] = Field("HS256", description="how new team JWTs are signed")
    postgres_pool: int = Field(10, ge=3, le=100, description="connections to Postgres at most")
