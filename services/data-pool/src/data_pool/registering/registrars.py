"""Who may register agents."""

from dataclasses import dataclass

from pallas_contracts.errors import Denied
from pallas_contracts.turns import Principal
from pallas_runtime.callers import check_callers, is_among


@dataclass(frozen=True, slots=True)
class Registrars:
    """The callers whom the setting `pool_registrars` names.

    Raises:
        Rejected: a word names no callers (`bad_settings`).
    """

    words: frozenset[str]

    def __post_init__(self) -> None:
        check_callers("pool_registrars", self.words)

    def check(self, caller: Principal) -> None:
        """Check that a caller may register agents.

        Raises:
            Denied: it may not (`not_registrar`).
        """
        if not is_among(caller, self.words):
            raise Denied("This caller may not register agents.", code="not_registrar")
