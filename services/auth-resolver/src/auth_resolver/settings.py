"""The settings of the service."""

from pydantic import Field, SecretStr

from pallas_credentials.settings import FernetKeys
from pallas_runtime.settings import Settings


class AuthResolverSettings(Settings):
    """Settings of auth-resolver."""

    redis_url: SecretStr = Field(
        SecretStr("redis://127.0.0.1:6379"), description="Redis for the cache of look-ups; may hold a password"
    )
    fernet_keys: FernetKeys = Field(
        None, description="Fernet keys that decrypt signing keys, separated by commas; as for team-lifecycle; required"
    )
    per_turn_tokens: bool = Field(True, description="accept the per-turn JWTs of Daedalus (issuer `daedalus`)")
