"""Whether a browser sent a request for another site."""

from urllib.parse import urlsplit

from starlette.datastructures import Headers

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def is_cross_site(headers: Headers, public_url: str | None) -> bool:
    """Whether the request comes from a page of another origin. Programs that are no browsers say nothing of this."""
    if (site := headers.get("sec-fetch-site")) is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    if origin is None:
        return False
    own = {headers.get("host", ""), urlsplit(public_url).netloc if public_url else ""}
    return urlsplit(origin).netloc not in own - {""}
