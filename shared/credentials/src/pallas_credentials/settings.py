"""Keys and hashes of passwords, as settings. What is refused is not shown."""

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
        raise ValueError("must be a hash by Argon2, as argon2.PasswordHasher().hash(password) makes it") from error
    return value


def _check_fernet(value: SecretStr | None) -> SecretStr | None:
    for key in keys_of(value):
        try:
            Fernet(key)
        except ValueError as error:
            raise ValueError("must be keys as Fernet.generate_key() makes them, separated by commas") from error
    return value


def keys_of(value: SecretStr | None) -> list[str]:
    """The keys of a setting that lists them; the first seals, all open."""
    given = value.get_secret_value() if value is not None else ""
    return [key.strip() for key in given.split(",") if key.strip()]


type PasswordHash = Annotated[SecretStr | None, AfterValidator(_check_hash)]
"""An Argon2 hash; None closes the account."""

type FernetKeys = Annotated[SecretStr | None, AfterValidator(_check_fernet)]
"""Fernet keys, separated by commas."""
