"""What the resolver can be told."""

from typing import Annotated

from cryptography.fernet import Fernet
from pydantic import AfterValidator, Field, SecretStr

from pallas_runtime.settings import Settings


def fernet_keys(value: SecretStr | None) -> list[str]:
    """The keys of a setting that lists them."""
    given = value.get_secret_value() if value is not None else ""
    return [key.strip() for key in given.split(",") if key.strip()]


def _check_fernet(value: SecretStr | None) -> SecretStr | None:
    for key in fernet_keys(value):
        try:
            Fernet(key)
        except ValueError as error:
            raise ValueError("must be keys as Fernet.generate_key() makes them, separated by commas") from error
    return value


class AuthResolverSettings(Settings):
    """Settings of an auth-resolver."""

    redis_url: SecretStr = Field(
        SecretStr("redis://127.0.0.1:6379"), description="the cache of look-ups; may hold a password"
    )
    fernet_keys: Annotated[SecretStr | None, AfterValidator(_check_fernet)] = Field(
        None, description="open the signing keys, separated by commas; the same as team-lifecycle's; required"
    )
    per_turn_tokens: bool = Field(True, description="accept Daedalus' per-turn JWTs (issuer `daedalus`)")
