"""Subject filters: parsing those that a person has typed, and whether two of them overlap."""

from pallas_contracts.errors import Rejected

ROOT = "pallas.v1."
"""The beginning of every subject of Pallas."""


def subject_filter(text: str) -> str:
    """A filter as the broker takes it. In `text`, `ROOT` may be left out, as in `turn.outcome.>`.

    Raises:
        Rejected: an empty part, a wildcard within a part, or `>` before the end.
    """
    parts = text.removeprefix(ROOT).split(".")
    if not all(parts) or any(character.isspace() for character in text):
        raise Rejected(f"{text!r} is not a subject: a part of it is empty or has a space")
    if ">" in parts[:-1] or any(len(part) > 1 and set(part) & {"*", ">"} for part in parts):
        raise Rejected(f"{text!r} is not a subject: '*' must be a whole part, and '>' the last one")
    return ROOT + ".".join(parts)


def overlap(one: str, other: str) -> bool:
    """Whether some subject matches both filters."""
    ones, others = one.split("."), other.split(".")
    for mine, theirs in zip(ones, others, strict=False):
        if ">" in (mine, theirs):
            return True
        if mine != theirs and "*" not in (mine, theirs):
            return False
    return len(ones) == len(others)
