"""Tool schemas: compiled, and arguments checked against them, whoever has written either."""

from pallas_schemas.tool_schema import ToolSchema, check_definition

__all__ = ["ToolSchema", "check_definition"]
