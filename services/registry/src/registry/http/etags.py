"""`If-None-Match`, as RFC 9110 section 13.1.2 has it: a list of tags, compared weakly, or `*`."""

import re

_TAG = re.compile(r'(?:W/)?("[^"]*")')


def is_fresh(if_none_match: str | None, etag: str) -> bool:
    """Whether the caller already has the version with this `etag`."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == "*" or etag.removeprefix("W/") in _TAG.findall(if_none_match)
