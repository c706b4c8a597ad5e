"""Lines of a chat: what is a command to the chat, what goes to the agent, and which files are images."""

import base64
from pathlib import Path

import pytest

from pallas_cli.chat.lines import LARGEST_IMAGE, Command, parse_line, read_image
from pallas_cli.refused import Refused


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        ("/agent demo/harper", Command("agent", "demo/harper")),
        ("  /image  a b.png ", Command("image", "a b.png")),
        ("/quit", Command("quit", "")),
        ("/images", "/images"),
        ("/say /agent", "/say /agent"),
        ("/tool add {}", "/tool add {}"),
        ("hello\n", "hello"),
    ],
)
def test_only_the_commands_of_the_chat_are_kept_from_the_agent(line: str, parsed: Command | str) -> None:
    assert parse_line(line) == parsed


def test_an_image_has_its_content_and_type(tmp_path: Path) -> None:
    (tmp_path / "a.JPG").write_bytes(b"abc")
    assert read_image(str(tmp_path / "a.JPG")) == {"mime_type": "image/jpeg", "data": base64.b64encode(b"abc").decode()}


@pytest.mark.parametrize(
    ("name", "reason"),
    [("a.txt", "not the name of a PNG"), ("", "the image: is not"), ("no.png", "No such file"), ("big.png", "5 MiB")],
)
def test_what_is_no_image_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "big.png").write_bytes(bytes(LARGEST_IMAGE + 1))
    with pytest.raises(Refused, match=reason):
        read_image(str(tmp_path / name) if name else "")
