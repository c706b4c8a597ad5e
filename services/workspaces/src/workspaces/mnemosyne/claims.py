"""What a team JWT says about itself. Only Mnemosyne can check it."""

import base64
import binascii
from typing import Any, cast

from pydantic_core import from_json


def jti_of(jwt: str) -> str | None:
    """The `jti` of a JWT (auth contract, section 5.2), None if it cannot be read."""
    parts = jwt.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = from_json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        return None
    jti = cast("dict[str, Any]", claims).get("jti") if isinstance(claims, dict) else None
    return jti if isinstance(jti, str) else None
