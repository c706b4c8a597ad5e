"""The HTTP API of the engine (`http-api-contract.md`), with what RFC-018 and Pallas add to it."""
