"""Files into text, and text into chunks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from library_search.model import DocumentText, Section
from library_search.reading.formats import PLAIN, chunks_of, kind_of, read_document, read_markdown
from pallas_contracts.errors import Rejected


def plain(text: str) -> DocumentText:
    """A text of one section."""
    return DocumentText(text, (Section(0, len(text)),))


@given(st.text(alphabet=st.sampled_from("ab .\n\t!ü"), max_size=600), st.integers(20, 80), st.integers(0, 9))
def test_chunks_hold_all_of_a_text_in_order_and_are_not_too_long(text: str, size: int, overlap: int) -> None:
    chunks = chunks_of(plain(text), size=size, overlap=overlap)
    held = {place for chunk in chunks for place in range(chunk.start, chunk.start + len(chunk.text))}
    assert all(letter.isspace() for place, letter in enumerate(text) if place not in held)
    assert all(text[chunk.start : chunk.start + len(chunk.text)] == chunk.text for chunk in chunks)
    assert all(0 < len(chunk.text) <= size and chunk.text == chunk.text.strip() for chunk in chunks)
    assert [chunk.start for chunk in chunks] == sorted({chunk.start for chunk in chunks})


def test_a_text_is_cut_at_the_end_of_a_paragraph_and_chunks_overlap() -> None:
    first = "One sentence of the first paragraph. " * 16
    second = "One sentence of the second paragraph. " * 16
    one, two = chunks_of(plain(f"{first.strip()}\n\n{second}"))
    assert one.text == first.strip()
    assert two.text.startswith("One sentence of the first paragraph.")
    assert 0 < two.text.count("first") <= 4
    assert two.text.count("second") == 16


def test_a_word_that_is_longer_than_a_chunk_is_cut() -> None:
    chunks = chunks_of(plain("x" * 2500))
    assert [len(chunk.text) for chunk in chunks] == [1000, 1000, 500]


def test_the_sections_of_markdown_are_named_by_all_headings_above_them() -> None:
    text = "Before.\n\n# One `code`\na\n## *Two*\nb\n### Three\nc\n## Four\nd\n\nFive\n====\ne\n"
    read = read_markdown(text)
    assert "".join(text[section.start : section.end] for section in read.sections) == text
    assert [section.heading for section in read.sections] == [
        "",
        "One code",
        "One code > Two",
        "One code > Two > Three",
        "One code > Four",
        "Five",
    ]
    assert read.title == "One code"


def test_a_heading_is_named_without_links_and_cut_when_it_is_very_long() -> None:
    read = read_markdown(f"# A [link][1]\n\n## {'x' * 300}\n\n[1]: https://a.test\n")
    assert [section.heading for section in read.sections] == ["A link", "A link > " + "x" * 200]


def test_text_that_only_looks_like_a_heading_is_none() -> None:
    read = read_markdown("```\n# a\n```\n\n    # b\n\n- # c\n\n> # d\n\n#e\n")
    assert [section.heading for section in read.sections] == [""]
    assert read.title is None


@pytest.mark.parametrize(
    ("front", "title"), [("title: Named", "Named"), ("title: 'A: b'", "A: b"), ("other: 1", "Heading"), ("", "Heading")]
)
def test_front_matter_is_no_heading_and_may_name_the_document(front: str, title: str) -> None:
    read = read_markdown(f"---\n{front}\n---\n# Heading\ntext\n")
    assert read.title == title
    assert [section.heading for section in read.sections] == ["", "Heading"]


def test_a_byte_order_mark_is_removed_and_line_ends_are_normalised() -> None:
    assert read_document(b"\xef\xbb\xbfa\r\nb\rc", PLAIN, 100).text == "a\nb\nc"


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\xff\xfe", "not UTF-8 text .byte 0."), (b"a\0b", "a NUL character"), (b" \n\t", "the file has no text")],
)
def test_a_file_without_readable_text_is_refused_with_the_reason(content: bytes, reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        read_document(content, PLAIN, 100)


@pytest.mark.parametrize("path", ["a.docx", "a", ".md", "dir.md/file"])
def test_files_of_unsupported_kinds_are_refused(path: str) -> None:
    with pytest.raises(Rejected, match=r"\.md, \.markdown"):
        kind_of(path)
