"""What a child does between fork and exec.

On Linux it asks the kernel to kill it when the supervisor dies, so even `kill -9` of the supervisor leaves no process
behind. Elsewhere only an orderly stop ensures that. The code runs in a fork of a process that may have threads, so it
must not import modules or take locks: everything is looked up before the fork.
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
    """Make this process the parent of orphans of its children, so that it can find and end them."""
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def must_drop_root() -> bool:
    """Whether this process is root, which some servers refuse."""
    return os.geteuid() == 0


def child_setup(orphan_signal: signal.Signals, rootless: bool) -> Callable[[], None] | None:
    """Return the function that `subprocess` runs in the child, or None if there is nothing to do.

    With `rootless`, a child of root gets a user namespace in which it is the user `nobody`. It keeps its access to
    root's files, and needs no account and no changed permissions.
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
