"""What a person types in a chat: a message, or a command to the chat itself.

Only the commands below are the chat's. Any other line goes to the agent, which may have commands of its own.
"""

import base64
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from pallas_cli.refused import Refused

LARGEST_IMAGE = 5 * 1024 * 1024
HELP = """\
/agent NAME   talk to another agent; the conversation so far goes with you
/image FILE   send a PNG, JPEG, GIF or WebP with the next message
/help         this list
/quit         end the chat, as does Ctrl-D
Ctrl-C cancels a running turn. Any other line goes to the agent."""

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_WORDS = ("agent", "image", "help", "quit")


@dataclass(frozen=True, slots=True)
class Command:
    """A command to the chat: its word, without the slash, and what follows."""

    word: str
    rest: str


def parse_line(line: str) -> Command | str:
    """A command to the chat, or the message as it was typed."""
    word, _, rest = line.strip().partition(" ")
    if word.startswith("/") and word[1:] in _WORDS:
        return Command(word[1:], rest.strip())
    return line.strip()


def read_image(name: str) -> dict[str, str]:
    """An image file as agents take it: its content in base64, and its type.

    Raises:
        Refused: it cannot be read, is too large, or no image that agents take.
    """
    path = Path(name).expanduser()
    kind = mimetypes.guess_type(path.name)[0]
    if kind not in _IMAGES:
        raise Refused(f"{name or 'the image'}: is not the name of a PNG, JPEG, GIF or WebP file")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Refused(f"{name}: {error.strerror}") from None
    if len(content) > LARGEST_IMAGE:
        raise Refused(f"{name}: is larger than {LARGEST_IMAGE // 1024 // 1024} MiB")
    return {"mime_type": kind, "data": base64.b64encode(content).decode()}
