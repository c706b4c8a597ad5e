"""The demo agent, a deterministic stand-in for a coding agent in a terminal: writes files, types progress, obeys ESC.

A prompt is a list of commands, one per line or parted by `;` (see `COMMANDS`); other text makes it work for 0.3 s. It
keeps each prompt that it got in `.demo-agent/prompts` and each ESC in `.demo-agent/escapes`, so that a test can count
them. It is run by its path and imports little, so that it starts quickly.
"""

import os
import select
import signal
import sys
import termios
import time
import tty

COMMANDS = """write FILE: TEXT | append FILE: TEXT | work N s | quiet N s | say TEXT | ask QUESTION | report TEXT |
fail TEXT | pr URL [STATUS [CHECKS]] | crash | hang | ignore ESC once"""
NOTES = ".demo-agent"
SHOWN = 400
FRAME = 0.1
WAITING, BUSY = "\x1b]133;A\x1b\\", "\x1b]133;C\x1b\\"


class Interrupted(Exception):
    """ESC was pressed."""


class Asked(Exception):
    """The agent waits for an answer."""


class GaveUp(Exception):
    """The agent cannot do what it was told."""


def show(text: str) -> None:
    """Write to the terminal."""
    os.write(1, text.replace("\n", "\r\n").encode())


def note(name: str, text: str) -> None:
    """Keep a line under a name, before anything else is done about it."""
    with open(f"{NOTES}/{name}", "a", encoding="utf-8") as notes:
        notes.write(text.replace("\\", "\\\\").replace("\n", "\\n") + "\n")


def report(state: str, message: str, attention: bool = False) -> None:
    """Tell Coder what the agent does, as a coding agent does by its tool; Coder may be away."""
    url, token = os.environ.get("CODER_AGENT_URL", ""), os.environ.get("CODER_AGENT_TOKEN", "")
    if not url:
        return
    import json
    import socket

    host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
    fields = {"app_slug": "ccw", "state": state, "message": message[:160], "uri": "", "needs_user_attention": attention}
    body = json.dumps(fields).encode()
    head = (
        f"PATCH /api/v2/workspaceagents/me/app-status HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n"
        f"Coder-Session-Token: {token}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    try:
        with socket.create_connection((host, int(port)), 0.5) as link:
            link.sendall(head.encode() + body)
            link.recv(1024)
    except OSError:
        pass


class Keys:
    """The keyboard: typed and pasted text, Enter, and ESC."""

    def __init__(self) -> None:
        self.data = b""
        self.ignored = 0

    def read(self, seconds: float | None) -> bool:
        """Take what is typed within a time; True if anything was."""
        if not select.select([0], [], [], seconds)[0]:
            return False
        data = os.read(0, 65536)
        if not data:
            sys.exit(0)
        self.data += data
        return True

    def prompt(self) -> str:
        """Wait for a text and Enter."""
        text, shown, pasting = b"", 0, False
        while True:
            if not self.data:
                self.read(None)
            if self.data.startswith(b"\x1b["):
                while len(self.data) < 6:
                    self.read(None)
            if self.data.startswith((b"\x1b[200~", b"\x1b[201~")):
                pasting, self.data = self.data.startswith(b"\x1b[200~"), self.data[6:]
                if not pasting and not text:
                    show(" \b")
            elif self.data[:1] == b"\x1b":
                self.data = self.data[1:]
                note("escapes", "")
                show("\r\n> ")
                text, shown = b"", 0
            elif self.data[:1] == b"\r" and not pasting:
                self.data = self.data[1:]
                return text.decode(errors="replace")
            else:
                ends = [end for end in (self.data.find(b"\x1b"), -1 if pasting else self.data.find(b"\r")) if end >= 0]
                piece, self.data = self.data[: min(ends, default=None)], self.data[min(ends, default=len(self.data)) :]
                text += piece
                if shown < SHOWN:
                    line = piece.decode(errors="replace").replace("\r", " ").replace("\n", " ")
                    show(line[: SHOWN - shown] + ("…" if shown + len(line) > SHOWN else ""))
                    shown += len(line)

    def escaped(self, seconds: float) -> None:
        """Wait; raise Interrupted when ESC is pressed and is not to be ignored."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self.read(left) and b"\x1b" in self.data:
                self.data = self.data.replace(b"\x1b", b"", 1)
                note("escapes", "")
                if not self.ignored:
                    raise Interrupted
                self.ignored -= 1


def work(keys: Keys, seconds: float, *, quiet: bool = False) -> None:
    """Be busy for a time, with a spinner, or without any sign of it."""
    if quiet:
        show(WAITING)
    for frame in range(max(1, round(seconds / FRAME))):
        if not quiet:
            show(f"\rThinking {'|/-'[frame % 3]}.")
        keys.escaped(min(FRAME, seconds))
    show(f"\r\x1b[K{BUSY if quiet else ''}")


def seconds_of(text: str) -> float:
    """The number in `2 s`, `0.5`, `2s`."""
    return float(text.strip().removesuffix("s").strip() or 1)


def write(argument: str, mode: str) -> None:
    """Put a text into a file below the working folder."""
    name, _, text = argument.partition(":")
    name = os.path.normpath(name.strip())
    if name.startswith(("/", "..")):
        return show(f"no: {name} is outside the workspace\n")
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, mode, encoding="utf-8") as file:
        file.write(text.strip() + "\n")
    return show(f"wrote {name}\n")


def do(keys: Keys, command: str) -> None:
    """Carry out one command."""
    verb, _, argument = command.partition(" ")
    match verb.lower():
        case "write" | "append" if ":" in argument:
            report("working", f"Writing {argument.partition(':')[0].strip()}")
            write(argument, "w" if verb.lower() == "write" else "a")
        case "work" | "quiet" if argument.strip()[:1].isdigit():
            report("working", f"Working {argument.strip()}")
            work(keys, seconds_of(argument), quiet=verb.lower() == "quiet")
            show(f"worked {argument}\n")
        case "say":
            show(f"{argument}\n")
        case "ask":
            show(f"? {argument}\n")
            raise Asked(argument)
        case "report":
            report("working", argument)
        case "fail":
            show(f"failed: {argument}\n")
            raise GaveUp(argument)
        case "pr":
            note("pull_request", argument)
            show(f"opened {argument}\n")
        case "crash" if not argument:
            show("Segmentation fault\n")
            sys.exit(139)
        case "hang" if not argument:
            report("working", "Hanging")
            keys.ignored = 1 << 30
            work(keys, 1e9)
        case "ignore" if argument.lower() == "esc once":
            keys.ignored += 1
        case _:
            report("working", command)
            work(keys, 3 * FRAME)
            show(f"done {command[:SHOWN]}\n")


def take(keys: Keys, prompt: str) -> None:
    """Carry out a prompt."""
    show(f"{BUSY}\n")
    if not prompt.strip():
        return
    note("prompts", prompt)
    commands = [part.strip() for line in prompt.splitlines() for part in line.split(";") if part.strip()]
    try:
        for command in commands:
            try:
                do(keys, command)
            except (OSError, ValueError, ArithmeticError) as error:
                show(f"no: {type(error).__name__}\n")
        report("idle", commands[-1] if commands else "")
    except Interrupted:
        show("\r\x1b[KInterrupted by user\n")
        report("idle", "Interrupted by user")
    except Asked as question:
        report("idle", str(question), attention=True)
    except GaveUp as reason:
        report("failure", str(reason))


def main() -> None:
    """Greet, then take prompts until the terminal goes. Nothing that is typed ends it but `crash`."""
    for key in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):  # what Ctrl-C, Ctrl-\ and Ctrl-Z are until it is raw
        signal.signal(key, signal.SIG_IGN)
    os.makedirs(NOTES, exist_ok=True)
    saved = termios.tcgetattr(0)
    tty.setraw(0)
    keys = Keys()
    show(f"{BUSY}\x1b[?2004hHello! I am the demo agent.\n")
    try:
        while True:
            show(f"{WAITING}> ")
            take(keys, keys.prompt())
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, saved)


if __name__ == "__main__":
    main()
