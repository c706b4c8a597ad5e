"""URI templates, of RFC 6570 the simple `{name}` (no slash) and the reserved `{+name}` (any characters)."""

import re
from urllib.parse import unquote

_VARIABLE = re.compile(r"\{(\+?)(\w+)\}")


class UriTemplate:
    """A URI with variables; one without any matches only itself."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.variables = tuple(name for _, name in _VARIABLE.findall(text))
        self._pattern = re.compile(_pattern(text))

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded values of the variables in `uri`, or None when it is not of this template."""
        found = self._pattern.fullmatch(uri)
        return {name: unquote(value) for name, value in found.groupdict().items()} if found else None


def _pattern(text: str) -> str:
    parts: list[str] = []
    end = 0
    for variable in _VARIABLE.finditer(text):
        parts.append(re.escape(text[end : variable.start()]))
        parts.append(f"(?P<{variable[2]}>{'.+' if variable[1] else '[^/?#]+'})")
        end = variable.end()
    return "".join([*parts, re.escape(text[end:])])
