"""Tool schemas: compiled, and arguments checked against them, whoever has written either."""
