"""Small texts of the chat: titles, types of images, what can be stored, offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspaces.chat.conversations import LONGEST_MADE_TITLE, title_of
from workspaces.chat.images import type_of
from workspaces.chat.model import clean, clean_text
from workspaces.chat.partial import utf16_length


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("hello", "hello"),
        ("\n\n  two   words\nmore", "two words"),
        ("  ", "Image"),
        ("word " * 30, "word " * 15 + "word…"),
        ("x" * 100, "x" * 80 + "…"),
    ],
)
def test_a_title_is_the_beginning_of_the_first_line(text: str, title: str) -> None:
    assert title_of(text) == title


@given(st.text())
def test_a_title_is_one_short_line(text: str) -> None:
    title = title_of(text)
    assert title
    assert len(title.splitlines()) == 1
    assert len(title) <= LONGEST_MADE_TITLE + 1


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (b"\x89PNG\r\n\x1a\n...", "image/png"),
        (b"\xff\xd8\xff\xe0...", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a...", "image/gif"),
        (b"RIFF\x01\x02\x03\x04WEBPVP8 ", "image/webp"),
        (b"RIFF\x01\x02\x03\x04WAVE", None),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", None),
        (b"BM....", None),
        (b"", None),
    ],
)
def test_the_first_bytes_decide_about_the_type_of_an_image(data: bytes, mime_type: str | None) -> None:
    assert type_of(data) == mime_type


@given(st.text(st.characters(codec=None)))
def test_clean_text_can_be_stored(text: str) -> None:
    assert "\0" not in clean_text(text)
    clean_text(text).encode()


def test_values_are_cleaned_all_through() -> None:
    assert clean({"a\0": ["\ud800", 1, None, {"b": "\0"}]}) == {"a\ufffd": ["?", 1, None, {"b": "\ufffd"}]}


@given(st.text())
def test_offsets_are_those_of_javascript(text: str) -> None:
    assert utf16_length(text) == sum(2 if ord(character) > 0xFFFF else 1 for character in text)
