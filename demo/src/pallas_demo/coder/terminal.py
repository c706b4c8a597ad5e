"""A program in a pseudo-terminal, and the conversation that AgentAPI reads from its screen.

Nothing polls: a screen is looked at when the program wrote, so an idle terminal costs no time.
"""

import asyncio
import os
import re
import signal
import termios
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pallas_demo.coder.screen import Screen, new_lines
from pallas_demo.coder.settings import TerminalSettings

type Status = Literal["running", "stable"]
type Event = tuple[str, dict[str, object]]

_FRAME = 0.025
_READ = 16384
_MARK = re.compile(rb"\x1b\]133;([AC])")
"""Semantic prompts (OSC 133): A before a prompt, C before output. A program that has them is busy also when it pauses;
of others AgentAPI can only tell whether their screen moves."""
_OPEN_TTY = 'tty=$1; shift; exec "$@" 0<>"$tty" 1>&0 2>&0'
"""The leader of a session that opens a terminal gets it as its controlling terminal."""


class Refused(Exception):
    """AgentAPI cannot send a message; the text says why."""


def now() -> str:
    """The present time as Coder and AgentAPI print it."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Terminal:
    """One program and its conversation. `changed` is called when the status changes or the program ends."""

    def __init__(self, settings: TerminalSettings, changed: Callable[[], None] = lambda: None) -> None:
        self.settings = settings
        self.status: Status = "running"
        self.messages: list[dict[str, object]] = []
        self.exit_code: int | None = None
        self.ready = False  # once the program waited for input
        self._prompt = ""
        self.folder = Path()
        self._changed = changed
        self._screen = Screen(settings.columns, settings.rows)
        self._before: list[str] = []
        self._typed = ""
        self._typing = False
        self._marked = self._busy = False
        self._begun = 0
        self._end: asyncio.Task[None] | None = None
        self._tail = b""  # too short to hold a mark
        self._lock = asyncio.Lock()
        self._wrote = asyncio.Event()
        self._listeners: dict[asyncio.Queue[Event | None], frozenset[str]] = {}
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}
        self._first: asyncio.Task[None] | None = None
        self._say("agent", "")

    async def start(
        self, command: tuple[str, ...], folder: Path, environment: dict[str, str], limits: str, prompt: str = ""
    ) -> None:
        """Run a command in a new session with this terminal, in a folder, and type a prompt when it waits for one."""
        self.folder, self._prompt = folder, prompt.strip()
        self._fd, tty = os.openpty()
        os.set_blocking(self._fd, False)
        termios.tcsetwinsize(tty, (self.settings.rows, self.settings.columns))
        script = f"{limits}; {_OPEN_TTY}" if limits else _OPEN_TTY
        try:
            self._process = await asyncio.create_subprocess_exec(
                "/bin/sh", "-c", script, "sh", os.ttyname(tty), *command,
                cwd=folder, env=environment, stdin=tty, stdout=tty, stderr=tty, start_new_session=True,
            )  # fmt: skip
        except BaseException:
            os.close(self._fd)
            raise
        finally:
            os.close(tty)
        asyncio.get_running_loop().add_reader(self._fd, self._read)
        self._after(self.settings.start_timeout, self._settled)  # sooner, once it writes
        self._end = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """End the program and all that it started."""
        if self._end is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._end
        if self._first is not None:
            self._first.cancel()

    async def wait(self) -> None:
        """Wait until the program has ended."""
        if self._end is not None:
            await asyncio.shield(self._end)

    async def send(self, text: str) -> None:
        """Type a message and Enter, and wait until the program shows that it began. Raises Refused."""
        async with self._lock:
            text = text.strip()
            if not text:
                raise Refused("message must not be empty")
            if self.status != "stable" or self.exit_code is not None:
                raise Refused("message can only be sent when the agent is waiting for user input")
            await self._type(text)

    async def _type(self, text: str) -> None:
        with self._silence():
            before = self._screen.lines()
            self._turn("running")
            self._wrote.clear()  # a program may show only the beginning of a long text, while the rest is typed
            await self.press(f"\x1b[200~{text}\x1b[201~" if self._screen.takes_pastes else text)
            with suppress(TimeoutError):
                await self._quiet(self.settings.echo_timeout)
            begun = self._begun
            self._wrote.clear()
            await self._enter(lambda: not self._marked or self._begun > begun)
            self._before, self._typed = before, text
            self._say("user", text)

    async def _type_first(self, text: str) -> None:
        self.ready = True
        self._changed()
        async with self._lock:
            with suppress(Refused):
                await self._type(text)

    async def press(self, keys: str) -> None:
        """Write keys as they are."""
        data = keys.encode()
        while data and self.exit_code is None:
            try:
                data = data[os.write(self._fd, data[:2048]) :]
            except BlockingIOError:
                await asyncio.sleep(_FRAME / 5)

    async def events(self, *wanted: str) -> AsyncGenerator[Event]:
        """The present state as events of the names wanted, then what happens, until the program ends."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._listeners[queue] = frozenset(wanted)
        screen: Event = ("screen_update", {"screen": "\n".join(self._screen.lines())})
        first: list[Event] = [("message_update", _update(message)) for message in self.messages]
        first += [self._status_event(), screen]
        for event in first:
            if event[0] in wanted:
                queue.put_nowait(event)
        if self.exit_code is not None:
            queue.put_nowait(None)
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._listeners.pop(queue)

    @contextmanager
    def _silence(self) -> Generator[None]:
        """What shows while a message is typed belongs to no message of the agent."""
        self._typing = True
        try:
            yield
        finally:
            self._typing = False
            self._after(_FRAME, self._look)
            self._after(self.settings.stable_after, self._settled)

    async def _enter(self, enough: Callable[[], bool]) -> None:
        """Press Enter, and again while the program shows nothing. Raises Refused: then no message is kept."""
        try:
            async with asyncio.timeout(self.settings.start_timeout):
                while True:
                    await self.press("\r")
                    with suppress(TimeoutError):
                        return await self._quiet(self.settings.enter_again, enough)
        except TimeoutError:
            raise Refused("failed to wait for processing to start: timeout waiting for condition") from None

    async def _quiet(self, seconds: float, enough: Callable[[], bool] = lambda: True) -> None:
        """Wait until the program wrote something since `_wrote` was cleared, and enough, and then paused.

        Raises:
            TimeoutError: it did not, within `seconds`.
        """
        async with asyncio.timeout(seconds):
            await self._wrote.wait()
            while not enough() and self.exit_code is None:
                self._wrote.clear()
                await self._wrote.wait()
            while self._wrote.is_set() and self.exit_code is None:
                self._wrote.clear()
                await asyncio.sleep(self.settings.quiet_after)

    def _read(self) -> bool:
        """Show what the program wrote. False if there is no more."""
        try:
            data = os.read(self._fd, _READ)
        except BlockingIOError:
            return False
        except OSError:  # all programs of this terminal have ended
            asyncio.get_running_loop().remove_reader(self._fd)
            return False
        self._screen.feed(data)
        read, self._tail = self._tail + data, (self._tail + data)[-6:]
        for mark in _MARK.findall(read):
            self._marked, self._busy = True, mark == b"C"
            self._begun += self._busy
        self._turn("running")  # and stays so while it is busy, also if it only pauses
        self._wrote.set()
        if self._look not in self._timers:
            self._after(_FRAME, self._look)
        self._after(self.settings.stable_after, self._settled)
        return bool(data)

    def _look(self) -> None:
        self._timers.pop(self._look, None)
        if self._typing:
            return
        lines = self._screen.lines()
        if any("screen_update" in wanted for wanted in self._listeners.values()):
            self._tell(("screen_update", {"screen": "\n".join(lines)}))
        text = new_lines(self._before, lines, self._typed)
        if self.messages[-1]["role"] == "user":
            if text:
                self._say("agent", text)
        elif text != self.messages[-1]["content"]:
            self.messages[-1] |= {"content": text, "time": now()}
            self._tell(("message_update", _update(self.messages[-1])))

    def _settled(self) -> None:
        self._timers.pop(self._settled, None)
        if self._typing or self._busy:
            return
        self._look()
        if self._prompt:
            self._first = asyncio.create_task(self._type_first(self._prompt))
            self._prompt = ""
        else:
            self.ready = True
            self._turn("stable")

    def _after(self, seconds: float, call: Callable[[], None]) -> None:
        if timer := self._timers.pop(call, None):
            timer.cancel()
        if self.exit_code is None:
            self._timers[call] = asyncio.get_running_loop().call_later(seconds, call)

    def _say(self, role: str, text: str) -> None:
        self.messages.append({"id": len(self.messages), "content": text, "role": role, "time": now()})
        self._tell(("message_update", _update(self.messages[-1])))

    def _turn(self, status: Status) -> None:
        if status != self.status:
            self.status = status
            self._tell(self._status_event())
            self._changed()

    def _status_event(self) -> Event:
        return "status_change", {"status": self.status, "agent_type": self.settings.agent_type}

    def _tell(self, event: Event | None) -> None:
        for queue, wanted in self._listeners.items():
            if event is None or event[0] in wanted:
                queue.put_nowait(event)

    async def _watch(self) -> None:
        code = await self._process.wait()
        while self._read():
            pass
        self._look()
        self.exit_code = code
        for timer in self._timers.values():
            timer.cancel()
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
        self._wrote.set()
        self._tell(("agent_error", {"level": "error", "message": f"process exited with code {code}", "time": now()}))
        self._tell(None)
        self._changed()


def _update(message: dict[str, object]) -> dict[str, object]:
    return {("message" if name == "content" else name): value for name, value in message.items()}
