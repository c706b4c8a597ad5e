"""What a team JWT says about itself. Only Mnemosyne can check it."""

import base64
import binascii

from pydantic import BaseModel


def jti_of(jwt: str) -> str | None:
    """The `jti` of a JWT (auth contract, section 5.2), None if it cannot be read."""
    return _claims_of(jwt).jti


def is_of_another_team(jwt: str, team_id: str) -> bool:
    """Whether the `sub` of a JWT names another team. If it cannot be read, it does not."""
    return _claims_of(jwt).sub not in (None, f"team:{team_id}")


class _Claims(BaseModel):
    jti: str | None = None
    sub: str | None = None


def _claims_of(jwt: str) -> _Claims:
    parts = jwt.split(".")
    if len(parts) != 3:
        return _Claims()
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return _Claims.model_validate_json(payload)
    except (ValueError, binascii.Error):
        return _Claims()
