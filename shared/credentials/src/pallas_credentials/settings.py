"""Settings for keys and password hashes. Errors do not show the values."""

from typing import Annotated

from argon2 import extract_parameters
from argon2.exceptions import InvalidHashError
from cryptography.fernet import Fernet
from pydantic import AfterValidator, SecretStr


def _check_hash(value: SecretStr | None) -> SecretStr | None:
    try:
        if value is not None:
            extract_parameters(value.get_secret_value())
    except InvalidHashError as error:
        raise ValueError("must be an Argon2 hash, as argon2.PasswordHasher().hash(password) returns it") from error
    return value


def _check_fernet(value: SecretStr | None) -> SecretStr | None:
    for key in keys_of(value):
        try:
            Fernet(key)
        except ValueError as error:
            raise ValueError(
                "must be Fernet keys, as Fernet.generate_key() returns them, separated by commas"
            ) from error
    return value


def keys_of(value: SecretStr | None) -> list[str]:
    """The keys in a comma-separated list. The first encrypts, all decrypt."""
    given = value.get_secret_value() if value is not None else ""
    return [key.strip() for key in given.split(",") if key.strip()]


type PasswordHash = Annotated[SecretStr | None, AfterValidator(_check_hash)]
"""An Argon2 hash; None closes the account."""

type FernetKeys = Annotated[SecretStr | None, AfterValidator(_check_fernet)]
"""Fernet keys, separated by commas."""
