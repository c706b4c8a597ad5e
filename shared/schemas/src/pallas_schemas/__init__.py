"""Tool schemas: compiled, and arguments checked against them, whoever has written either."""

from pallas_schemas.tool_schema import ToolSchema, check_definition
from pallas_schemas.work import TooMuch

__all__ = ["TooMuch", "ToolSchema", "check_definition"]
