"""The processes of a folder: one for each program, as where fast-agent runs it."""
