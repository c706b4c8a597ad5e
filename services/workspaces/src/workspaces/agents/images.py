"""Images by their first bytes, whatever their sender calls them."""

import re

_SVG = (
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]{0,200}>\s*)?"
    rb"(?:<!--.{0,1000}?-->\s*|<!DOCTYPE svg[^>\[]{0,300}>\s*){0,5}<svg[\s>]"
)
_SIGNATURES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"....ftypavi[fs]", re.DOTALL), "image/avif"),
    (re.compile(rb"\x00\x00\x01\x00"), "image/x-icon"),
    (re.compile(rb"BM....\x00\x00\x00\x00", re.DOTALL), "image/bmp"),
    (re.compile(_SVG, re.DOTALL), "image/svg+xml"),
)  # fmt: skip


def image_type(content: bytes) -> str | None:
    """The media type of an image; None if it is none that browsers show."""
    return next((kind for pattern, kind in _SIGNATURES if pattern.match(content)), None)
