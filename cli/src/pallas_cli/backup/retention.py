"""Which backups are kept: the newest, by number. What was interrupted is removed a day later."""

from datetime import UTC, datetime, timedelta

from pallas_cli.backup.store import Store

_GIVEN_UP = timedelta(days=1)


def prune(store: Store, keep: int, *, dry: bool = False) -> list[str]:
    """Remove all backups but the newest `keep`, and return the ids of what was removed. `dry`: remove nothing.

    Raises:
        Refused: the store cannot be used.
    """
    finished = store.finished()
    gone = finished[: max(0, len(finished) - keep)] + [each for each in store.unfinished() if _is_given_up(each)]
    for backup in () if dry else gone:
        store.remove(backup)
    return gone


def _is_given_up(backup: str) -> bool:
    try:
        began = datetime.strptime(backup.partition("-")[0], "%Y%m%dt%H%M%Sz").replace(tzinfo=UTC)
    except ValueError:  # a folder that is not ours
        return False
    return datetime.now(UTC) - began > _GIVEN_UP
