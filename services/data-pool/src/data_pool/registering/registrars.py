"""Who may register agents."""

from dataclasses import dataclass

from pallas_contracts.errors import Denied, Rejected
from pallas_contracts.turns import Principal

_TYPES = frozenset({"peer", "user", "team", "turn", "token"})


@dataclass(frozen=True, slots=True)
class Registrars:
    """Callers of one of the types, or one of the teams and tokens (`team:ID`, `token:ID`), in `words`.

    Raises:
        Rejected: a word is neither (`bad_settings`).
    """

    words: frozenset[str]

    def __post_init__(self) -> None:
        for word in self.words - _TYPES:
            if not word.startswith(("team:", "token:")):
                raise Rejected(
                    f"PALLAS_POOL_REGISTRARS: {word!r} is none of {', '.join(sorted(_TYPES))}, team:ID and token:ID",
                    code="bad_settings",
                )

    def check(self, caller: Principal) -> None:
        """Check that a caller may register agents.

        Raises:
            Denied: it may not (`not_registrar`).
        """
        if not {caller.type, f"{caller.type}:{caller.id}"} & self.words:
            raise Denied("This caller may not register agents.", code="not_registrar")
