"""Removes credentials and addresses from the texts of errors."""

import re

_LONGEST = 500
_SECRETS = re.compile(
    r"(?i)(?P<keep>\b(?:bearer|basic|api[-_ ]?key\S*|token|authorization)[\"']?\s*[:= ]\s*[\"']?"
    r"(?:(?:bearer|basic)\s+)?)[^\s\"',}]+"
    r"|\b(?:sk|pk|rk|key|ghp|xox[a-z])-[\w*.-]{4,}"
    r"|\beyJ[\w-]+\.[\w-]+\.[\w-]*"
)
_ADDRESS = re.compile(r"\b(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)[^\s\"'<>)]+")


def redact(text: str) -> str:
    """Remove credentials and addresses from a text, and shorten it."""
    text = _SECRETS.sub(lambda found: f"{found['keep'] or ''}[redacted]", text)
    text = _ADDRESS.sub("[address]", text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
