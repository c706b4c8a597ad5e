"""What the resolver can be told."""

from pydantic import Field, SecretStr

from pallas_credentials.settings import FernetKeys
from pallas_runtime.settings import Settings


class AuthResolverSettings(Settings):
    """Settings of an auth-resolver."""

    redis_url: SecretStr = Field(
        SecretStr("redis://127.0.0.1:6379"), description="the cache of look-ups; may hold a password"
    )
    fernet_keys: FernetKeys = Field(
        None, description="open the signing keys, separated by commas; the same as team-lifecycle's; required"
    )
    per_turn_tokens: bool = Field(True, description="accept Daedalus' per-turn JWTs (issuer `daedalus`)")
