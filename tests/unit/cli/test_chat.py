"""What a person types in a chat, and where it goes."""

import base64
import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from pallas_cli.chat.conversation import agent_endpoint
from pallas_cli.commands.chat import LARGEST_IMAGE, Command, parse_line, read_image, show_answer
from pallas_cli.refused import Refused
from pallas_mcp_calls.model import CallAnswer


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


@pytest.mark.parametrize(("terminal", "shown"), [(True, "• one"), (False, "- **one**")])
def test_an_answer_is_markdown_on_a_terminal_and_as_it_is_in_a_pipe(terminal: bool, shown: str) -> None:
    console = Console(file=StringIO(), force_terminal=terminal, color_system=None, width=40)
    with console.capture() as printed:
        show_answer(console, CallAnswer(text="- **one**", failed=False))
    assert re.sub(r"\x1b\[\d*m", "", printed.get()).strip() == shown


@pytest.mark.parametrize(
    ("gateway", "agent", "url"),
    [
        ("http://host:1", "harper", "http://host:1/mcp/harper"),
        ("http://host:1/", "demo/harper", "http://host:1/teams/demo/mcp/harper"),
        ("http://host:24101/mcp", "harper", "http://host:24101/mcp"),
        ("http://host:1/teams/demo/mcp/harper/", "harper", "http://host:1/teams/demo/mcp/harper"),
    ],
)
def test_an_agent_is_found_by_name_by_team_or_by_its_own_endpoint(gateway: str, agent: str, url: str) -> None:
    assert agent_endpoint(gateway, agent) == (url, "harper")
