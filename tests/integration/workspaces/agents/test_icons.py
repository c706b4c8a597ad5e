"""Icons are fetched for browsers: those of registered agents, small ones, and nothing but images."""

import asyncio
import base64
from collections.abc import AsyncGenerator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from tests.integration.workspaces.agents.conftest import API, Town
from tests.workspaces_world.served import Served

from workspaces.agents.images import image_type
from workspaces.registries.urls import icon_hash

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SVG = b'<?xml version="1.0"?>\n<!-- made by hand -->\n<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


class Pictures(Served):
    """A server of icons. `fetched` counts requests by path."""

    def __init__(self) -> None:
        super().__init__(Starlette(routes=[Route("/{name}", self._serve)]))
        self.fetched = list[str]()
        self.go = asyncio.Event()

    async def _serve(self, request: Request) -> Response:
        name = request.path_params["name"]
        self.fetched.append(name)
        match name:
            case "page.png":
                return HTMLResponse("<script>alert(1)</script>", media_type="image/png")
            case "large.png":
                return Response(PNG + b"x" * 65_536)
            case "elsewhere.png":
                return RedirectResponse("http://169.254.169.254/latest/meta-data/")
            case "gone.png":
                return Response(status_code=404)
            case "slow.png":
                await self.go.wait()
                return Response(PNG)
            case "plain.svg":
                return Response(SVG, media_type="text/plain")
            case _:
                return Response(PNG, media_type="text/html")


@pytest.fixture(scope="module")
async def pictures() -> AsyncGenerator[Pictures]:
    """The server of icons."""
    async with Pictures() as pictures:
        yield pictures


async def path_of(town: Town, icon: str) -> str:
    """Where browsers get the icon of a newly registered agent."""
    name = town.offer(icons=[{"src": icon, "sizes": "any"}])
    instance = await town.world.register()
    [agent] = [one for one in (await town.world.instance(instance))["agents"] if one["server_id"] == name]
    return agent["icon"]


async def get(town: Town, path: str) -> httpx.Response:
    return await town.world.lab.browser.get(path)


async def test_an_icon_is_an_image_whatever_its_server_says(town: Town, pictures: Pictures) -> None:
    answer = await get(town, await path_of(town, f"{pictures.base}/well.png"))
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, PNG, "image/png")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "private, max-age=86400"


async def test_a_relative_icon_belongs_to_its_registry(town: Town) -> None:
    path = await path_of(town, "icons/research.svg")
    assert (await get(town, path)).status_code == 404  # the registry has no such file, but the path is known
    assert path.startswith(f"{API}/icons/")


async def test_an_svg_can_run_nothing(town: Town, pictures: Pictures) -> None:
    answer = await get(town, await path_of(town, f"{pictures.base}/plain.svg"))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")
    policy = answer.headers["content-security-policy"]
    assert "sandbox" in policy
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


async def test_an_icon_may_be_in_the_document(town: Town) -> None:
    path = await path_of(town, f"data:image/png;base64,{base64.b64encode(PNG).decode()}")
    assert (await get(town, path)).content == PNG


@pytest.mark.parametrize("name", ["page.png", "large.png", "elsewhere.png", "gone.png"])
async def test_what_is_no_small_image_at_its_address_is_no_icon(town: Town, pictures: Pictures, name: str) -> None:
    path = await path_of(town, f"{pictures.base}/{name}")
    answer = await get(town, path)
    assert (answer.status_code, answer.json()["code"]) == (404, "no_icon")
    assert pictures.fetched.count(name) == 1
    await get(town, path)
    assert pictures.fetched.count(name) == 1, "for a minute it is not asked again"


@pytest.mark.parametrize(
    "icon", ["data:image/png;base64,!!", "data:text/html,<b>", "http://169.254.169.254/icon.png", "http://[::1", "//"]
)
async def test_addresses_that_lead_nowhere_are_no_icons(town: Town, icon: str) -> None:
    path = f"{API}/icons/{icon_hash(icon)}"
    town.offer(icons=[{"src": icon}])
    await town.world.register()
    assert (await get(town, path)).status_code == 404


async def test_only_icons_of_registered_agents_are_fetched(town: Town, pictures: Pictures) -> None:
    answer = await get(town, f"{API}/icons/{icon_hash(f'{pictures.base}/other.png')}")
    assert answer.status_code == 404
    assert "other.png" not in pictures.fetched
    assert (await get(town, f"{API}/icons/xyz")).status_code == 422
    assert (await town.world.lab.stranger.get(f"{API}/icons/{icon_hash('x')}")).status_code == 401


async def test_an_icon_is_fetched_once_for_everybody(town: Town, pictures: Pictures) -> None:
    path = await path_of(town, f"{pictures.base}/slow.png")
    asking = [asyncio.create_task(get(town, path)) for _ in range(5)]
    pictures.go.set()
    answers = await asyncio.gather(*asking)
    assert {answer.content for answer in answers} == {PNG}
    assert (await get(town, path)).content == PNG
    assert pictures.fetched.count("slow.png") == 1


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"\x00\x00\x01\x00\x01\x00", "image/x-icon"),
        (b"  <svg>", "image/svg+xml"),
        (b'\xef\xbb\xbf<!DOCTYPE svg PUBLIC "a" "b"><svg ', "image/svg+xml"),
        (b"<svgx>", None),
        (b"<!-- <svg> -->", None),
        (b"<html><svg>", None),
        (b"<!--" * 20_000, None),
        (b"", None),
        (b"%PDF-1.4", None),
    ],
    ids=range(13),
)
def test_images_are_known_by_their_first_bytes(content: bytes, kind: str | None) -> None:
    assert image_type(content) == kind
