"""Why a source of a team cannot be loaded, in words that quote no value: values may be secrets."""

import re
import traceback
from pathlib import Path

from fast_agent.core.exceptions import (
    AgentConfigError,
    CircularDependencyError,
    ConfigFileError,
    ModelConfigError,
    ProviderKeyError,
    ServerConfigError,
)
from yaml import MarkedYAMLError

_ARGUMENT = re.compile(r"unexpected keyword argument '(\w+)'")


def reason_of(error: BaseException, *roots: Path) -> str:
    """What is wrong, and the line of the team's code where it came up."""
    place = _place(error, roots)
    return f"{_what(error, roots)} ({place})" if place else _what(error, roots)


def _what(error: BaseException, roots: tuple[Path, ...]) -> str:
    match error:
        case ModuleNotFoundError(name=str(name)):
            return f"there is no module {name!r}"
        case ImportError(name=None):  # of a provider's package
            return f"it needs a package that is not installed: {str(error).partition(' ')[0]}"
        case SystemExit():
            return "it ends its process when it is imported"
        case EOFError():
            return "it reads from a terminal, and there is none"
        case RuntimeError() if "event loop" in str(error):
            return 'it runs the agent; put that behind: if __name__ == "__main__":'
        case TypeError() if found := _ARGUMENT.search(str(error)):
            return f"there is no argument {found[1]!r}"
        # They have names of agents, servers, models and files only.
        case ServerConfigError():
            return _relative(f"{error.message}: {error.details}", roots)
        case ConfigFileError(__cause__=MarkedYAMLError(problem_mark=mark)) if mark is not None:
            return _relative(f"{error.message}:{mark.line + 1}", roots)
        case (
            AgentConfigError() | CircularDependencyError() | ConfigFileError() | ModelConfigError() | ProviderKeyError()
        ):
            return _relative(error.message, roots)
        case _:
            return type(error).__name__


def _relative(text: str, roots: tuple[Path, ...]) -> str:
    for root in roots:
        text = text.replace(f"{root}/", "")
    return " ".join(text.split())


def _place(error: BaseException, roots: tuple[Path, ...]) -> str | None:
    """The last line of the folder's own code in the traceback; None if none is."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [(it, root) for it in frames for root in roots if Path(it.filename).is_relative_to(root)]
    return f"{Path(lines[-1][0].filename).relative_to(lines[-1][1])}:{lines[-1][0].lineno}" if lines else None
