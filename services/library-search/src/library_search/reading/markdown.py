"""Reads Markdown: each heading begins a section, which is named by the headings above it and its own."""

import re
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt

from library_search.model import DocumentText, Section

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_LONGEST_HEADING = 200
"""Maximum characters of a heading. Sections repeat the headings above them, and parsing takes superlinear time."""
_TITLE = re.compile(r"^title:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)


def read_markdown(text: str) -> DocumentText:
    """Find the sections of a Markdown text, which stays as it is. Lines must end with newlines only."""
    front = _FRONT_MATTER.match(text)
    begin = front.end() if front else 0
    headings = _headings(text, begin)
    sections: list[Section] = []
    above: list[tuple[int, str]] = []
    starts = [0, *(start for start, _, _ in headings), len(text)]
    sections.append(Section(0, starts[1]))
    for (_, level, name), (start, end) in zip(headings, pairwise(starts[1:]), strict=True):
        above = [*((depth, each) for depth, each in above if depth < level), (level, name)]
        sections.append(Section(start, end, " > ".join(each for _, each in above)))
    named = _TITLE.search(front[1]) if front else None
    title = named[1].strip("\"'") if named else next((name for _, _, name in headings), None)
    return DocumentText(text, tuple(section for section in sections if section.start < section.end), title or None)


def _headings(text: str, begin: int) -> list[tuple[int, int, str]]:
    """The start, level and name of each heading. A line in a code block is not a heading."""
    lines = [begin, *(begin + found.end() for found in re.finditer("\n", text[begin:]))]
    # Inline markup is parsed in headings only: it takes most of the time, and for some texts hours.
    references: dict[str, Any] = {}
    tokens = MarkdownIt("commonmark").disable("inline").parse(text[begin:], references)
    markup = MarkdownIt("commonmark")
    return [
        (lines[token.map[0]], int(token.tag[1:]), _plain(markup, inline.content, references))
        for token, inline in pairwise(tokens)
        if token.type == "heading_open" and token.level == 0 and token.map
    ]


def _plain(markup: MarkdownIt, heading: str, references: dict[str, Any]) -> str:
    """A heading without its markup."""
    [inline] = markup.parseInline(heading[:_LONGEST_HEADING], references)
    return "".join(child.content for child in inline.children or () if child.type in ("text", "code_inline")).strip()
