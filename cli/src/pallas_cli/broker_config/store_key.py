"""The key of a broker's store is the one that the store was made with. With another one the broker loses the store."""

from hashlib import sha256
from pathlib import Path

from pallas_cli.private_files import write_atomically
from pallas_cli.refused import Refused

MARK = "store-key.sha256"
"""The file beside a store with the fingerprint of its key."""


def require_same_key(key: str, mark: Path, named: str, *, store: str, new: bool = False) -> None:
    """Compare a key with the fingerprint in `mark`, which is written if there is none or the store is `new`.

    Raises:
        Refused: the key is another one. The message names the key as `named`, and says to remove `store`.
    """
    found = sha256(key.encode()).hexdigest()
    if not new and mark.exists():
        if mark.read_text("utf-8").strip() == found:
            return
        raise Refused(
            f"the broker's store was made with another key than {named}, and would be lost: "
            f"give it the key of that time; if that is gone, remove {store}"
        )
    write_atomically(mark, f"{found}\n")


def require_text(key: str, named: str) -> str:
    """The key without white space around it.

    Raises:
        Refused: nothing is left.
    """
    if not (text := key.strip()):
        raise Refused(f"the key of the broker's store is empty: {named}")
    return text
