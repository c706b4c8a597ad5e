"""One TLS context for all HTTP clients of the process.

fast-agent makes a client for each call of a model, and each client reads all certificate authorities again, which takes
longer than everything else in a turn. Contexts with the default authorities are alike, so one is enough.
"""

from functools import cache

import httpcore2


def share_tls_context() -> None:
    """Make the default TLS context once, instead of once for each client."""
    httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)
