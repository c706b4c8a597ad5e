"""What a stand-in may be told at its start."""

import secrets
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

DEMO_AGENT = (sys.executable, "-I", "-S", str(Path(__file__).with_name("demo_agent.py")))
"""The demo agent, without site-packages so that it starts in some ten milliseconds."""

type Lifecycle = Literal["ready", "start_error", "start_timeout"]

type Generation = Literal["both", "v2", "experimental", "none", "chats"]
"""Where tasks are served: `/api/v2/tasks`, `/api/experimental/tasks`, both, or nowhere (workspaces only).

With `chats` there are `/api/v2/chats` instead, and workspaces have no app of a coding agent.
"""


@dataclass(frozen=True)
class TerminalSettings:
    """How AgentAPI watches a terminal. Times in seconds, by default its own."""

    stable_after: float = 2.0
    quiet_after: float = 0.02  # between the text and the Enter key
    echo_timeout: float = 2.0  # for the program to show what is typed; it need not
    start_timeout: float = 15.0  # for the program to show that it took a message
    enter_again: float = 3.0  # Enter is pressed again while it shows nothing
    columns: int = 80
    rows: int = 1000
    agent_type: str = "custom"
    allowed_hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")  # "*" allows all


@dataclass(frozen=True)
class StandInSettings:
    """Settings of the stand-in. `folder` holds a folder per workspace; None makes a temporary one."""

    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    port: int = 0
    generation: Generation = "both"
    release: int = 29  # of Coder 2; since 30 templates have no parameter for prompts, and builds name no task app
    cancels: bool = True  # whether builds may be cancelled: owners may, others where the template allows it
    lifecycle: Lifecycle = "ready"  # of workspace agents: what became of their startup scripts
    lower_presets: bool = False  # presets spelt as the OpenAPI document has them, not as real answers do
    program: tuple[str, ...] = DEMO_AGENT
    environment: dict[str, str] = field(default_factory=dict[str, str], repr=False)  # for the programs, such as keys
    build_seconds: float = 0.3
    state: Path | None = None
    folder: Path | None = None
    resume: bool = False  # start workspaces that were on when the stand-in ended; a Coder's outlive it
    allow_faults: bool = False
    wildcard: str = ""  # host of subdomain apps, as "*.apps.example:7080"
    sandbox: bool = True  # bubblewrap where it works
    limits: str = (
        "ulimit -c 0; ulimit -n 1024; ulimit -f 4194304"  # of the programs: core files, open files, kilobytes of a file
    )
    terminal: TerminalSettings = TerminalSettings()
