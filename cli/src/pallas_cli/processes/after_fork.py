"""What a child does between fork and exec.

On Linux it asks the kernel to be killed when the supervisor dies, so that even `kill -9` of the supervisor leaves
nothing behind; elsewhere only an orderly stop does that. The code runs in a fork of a process that may have threads:
it must not import anything or take locks, so everything is looked up before.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform == "linux"


def adopt_orphans() -> None:
    """Make this process the parent of whatever its children leave behind, so that it can be found and ended."""
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def must_drop_root() -> bool:
    """Whether this process is root, which some servers refuse to be."""
    return os.geteuid() == 0


def child_setup(orphan_signal: signal.Signals, rootless: bool) -> Callable[[], None] | None:
    """Return what `subprocess` is to run in the child, or None when there is nothing to do.

    With `rootless` a child of root gets a user namespace in which it is nobody: it keeps its access to root's files
    and needs neither an account nor a change of anybody's permissions.
    """
    if not _LINUX:
        return None
    prctl = ctypes.CDLL(None).prctl
    supervisor = os.getpid()
    nobody = _nobody() if rootless and must_drop_root() else None

    def setup() -> None:
        if nobody is not None:
            os.unshare(os.CLONE_NEWUSER)
            _write("/proc/self/uid_map", f"{nobody} 0 1")
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/gid_map", f"{nobody} 0 1")
        # A change of credentials clears the death signal, so it comes last.
        prctl(_PR_SET_PDEATHSIG, int(orphan_signal), 0, 0, 0)
        if os.getppid() != supervisor:
            os._exit(1)

    return setup


def _nobody() -> int:
    from pwd import getpwnam

    return getpwnam("nobody").pw_uid


def _write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)
