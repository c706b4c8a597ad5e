"""Who sends a request: the owner of an API key, the owner of a bearer, or else an address."""

from collections.abc import Iterable
from dataclasses import dataclass

from pallas_contracts.errors import Denied, PallasError
from pallas_contracts.turns import Principal
from pallas_runtime.http.bearers import Bearers, bearer_of
from pipelines.http.answers import Refused, refused
from pipelines.storing.namespaces import Caller, user_of
from pipelines.storing.scopes import KEY_ID, Scope, Scopes


@dataclass(frozen=True, slots=True)
class Identified:
    """A caller, and whom its rate is counted for: the owner of the key or the bearer, or the address.

    A caller without a bearer is who its header X-Constellation-Agent says; the header of one with an API key says which
    of those that have the key it is.
    """

    caller: Caller
    source: Principal


@dataclass(frozen=True)
class Identities:
    """Identifies callers. With API keys a caller needs a key or a bearer."""

    scopes: Scopes
    bearers: Bearers

    async def identify(
        self, headers: Iterable[tuple[bytes, bytes]], address: str, agent: str | None, *, uses_up: bool
    ) -> Identified:
        """The caller of a request. `uses_up`: the bearer of a turn is used up by it.

        Raises:
            Refused: the caller's bearer is missing or not accepted (401), or cannot be checked now (503).
        """
        try:
            principal = await self._principal(bearer_of(headers), uses_up=uses_up) or Principal(id=address)
        except Denied as error:
            raise Refused(401, "Unauthorized", error.message) from None
        except PallasError as error:
            raise refused(error) from None
        scope = self.scopes.scope_of(principal)
        if scope is Scope.NONE and principal.type == "peer" and self._checks:
            raise Refused(401, "Unauthorized", "This needs an API key or a bearer token.")
        known = principal
        if agent is not None and principal.type == "peer":
            known = Caller(principal, agent).identity
        elif agent is not None and principal.id.startswith(KEY_ID):
            known = principal.model_copy(update={"user": user_of(agent)})
        return Identified(Caller(known, agent, scope), principal)

    async def _principal(self, bearer: str | None, *, uses_up: bool) -> Principal | None:
        if bearer and (known := self.scopes.principal_of(bearer)) is not None:
            return known
        if bearer is not None and self.scopes.has_keys and self.bearers.mode == "off":
            raise Denied("The API key is not accepted.", code="invalid")
        checked = self.bearers.check_bearer(bearer)
        return await self.bearers.identify_caller(checked, uses_up=uses_up) if checked is not None else None

    @property
    def _checks(self) -> bool:
        return self.scopes.has_keys or self.bearers.mode != "off"
