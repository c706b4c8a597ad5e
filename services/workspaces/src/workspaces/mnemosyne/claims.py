"""What a team JWT says about itself. Only Mnemosyne can check it."""

import base64
import binascii

from pydantic import BaseModel


def jti_of(jwt: str) -> str | None:
    """The `jti` of a JWT (auth contract, section 5.2), None if it cannot be read."""
    parts = jwt.split(".")
    if len(parts) != 3:
        return None
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return _Claims.model_validate_json(payload).jti
    except (ValueError, binascii.Error):
        return None


class _Claims(BaseModel):
    jti: str | None = None
