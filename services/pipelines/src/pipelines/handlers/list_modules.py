"""Lists and describes the modules that a caller may use (RFC-018, tools `list_modules` and `describe_module`)."""

from dataclasses import dataclass

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import NotFound
from pallas_contracts.turns import Principal
from pipelines.modules.catalogue import Catalogue


@dataclass(frozen=True)
class ListModules:
    """The tools of agents and the standard library, as documents."""

    catalogue: Catalogue

    def documents(self, caller: Principal) -> list[JsonObject]:
        """The documents of all modules, by name."""
        modules = self.catalogue.of(caller)
        functions = modules.functions.by_qualified
        return [modules.document(functions[name]) for name in sorted(functions)]

    def described(self, caller: Principal, name: str) -> JsonObject:
        """The document of one module.

        Raises:
            NotFound: the caller has no such module.
        """
        modules = self.catalogue.of(caller)
        if (function := modules.function(name)) is None:
            raise NotFound(f"There is no module {name!r}.", code="unknown_module")
        return modules.document(function)
