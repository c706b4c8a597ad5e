"""Lists and describes the modules that a caller may use (RFC-018, tools `list_modules` and `describe_module`)."""

from dataclasses import dataclass

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import NotFound
from pallas_contracts.turns import Principal
from pallas_cst.functions import Function
from pipelines.modules.catalogue import Catalogue, Modules


@dataclass(frozen=True)
class ListModules:
    """The tools of agents and the standard library, as documents."""

    catalogue: Catalogue

    def documents(self, caller: Principal) -> list[JsonObject]:
        """The documents of all modules, by name."""
        modules = self.catalogue.of(caller)
        return [self._document(modules, each) for _, each in sorted(modules.functions.by_qualified.items())]

    def described(self, caller: Principal, name: str) -> JsonObject:
        """The document of one module.

        Raises:
            NotFound: the caller has no such module.
        """
        modules = self.catalogue.of(caller)
        if (function := modules.function(name)) is None:
            raise NotFound(f"There is no module {name!r}.", code="unknown_module")
        return self._document(modules, function)

    def _document(self, modules: Modules, function: Function) -> JsonObject:
        """The document of a function; `unavailable` has the reason if it cannot be called now."""
        module = modules.by_basis.get(function.module)
        why = self.catalogue.away(module) if module is not None else None
        return modules.document(function) | ({"unavailable": why} if why is not None else {})
