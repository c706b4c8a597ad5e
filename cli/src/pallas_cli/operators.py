"""Who operates the platform with the command, as the log has it."""

from pallas_contracts.turns import Principal

OPERATOR = Principal(type="peer", id="pallas-cli")
"""The caller of a turn that is replayed alone; of many, whoever had them executed again in their callers' names."""
