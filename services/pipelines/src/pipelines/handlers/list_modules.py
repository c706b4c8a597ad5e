"""Lists and describes the modules that a caller may use (RFC-018, tools `list_modules` and `describe_module`)."""

from dataclasses import dataclass

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import NotFound
from pallas_contracts.turns import Principal
from pallas_cst.stdlib import STANDARD
from pipelines.modules.catalogue import Catalogue
from pipelines.modules.module import standard_document


@dataclass(frozen=True)
class ListModules:
    """The tools of agents and the standard library, as documents."""

    catalogue: Catalogue

    def documents(self, caller: Principal) -> list[JsonObject]:
        """The documents of all modules, by name."""
        tools = self.catalogue.of(caller).by_basis.values()
        found = [module.document() for module in tools] + [standard_document(each) for each in STANDARD.values()]
        return sorted(found, key=lambda document: document["name"])

    def listed(self, caller: Principal, tag: str | None, search: str | None) -> list[JsonObject]:
        """Those with a tag, and with a text in the name or description."""
        wanted = (search or "").casefold()
        return [
            document
            for document in self.documents(caller)
            if (tag is None or tag in document["tags"])
            and wanted in f"{document['name']} {document['description']}".casefold()
        ]

    def described(self, caller: Principal, name: str) -> JsonObject:
        """The document of one module.

        Raises:
            NotFound: the caller has no such module.
        """
        modules = self.catalogue.of(caller)
        if (module := modules.find(name)) is not None:
            return module.document()
        for function in (modules.functions.by_qualified.get(name), *modules.functions.named(name)):
            if function is not None and function.module in STANDARD:
                return standard_document(STANDARD[function.module])
        raise NotFound(f"There is no module {name!r}.", code="unknown_module")
