"""What the server answers: the page's files, and JSON about the runs. Reads; changes nothing.

What the first page does not need is imported by the answers that do: it is there in a moment.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from mimetypes import MimeTypes
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from posemill import __version__
from posemill.errors import PosemillError
from posemill.files import FolderKind, open_plain, parse_json, safe_parts
from posemill.plugins import not_among
from posemill.web.answers import READ_ERRORS, answer_error, json_answer, refusal, text_of, whole_of
from posemill.web.children import ChildProcess
from posemill.web.clip_index import ClipTables
from posemill.web.describing import choose_predictions, describe, read_failed_files, row_of
from posemill.web.library import ClipAddress, Entry, Library
from posemill.web.media import FILE_KINDS, find_video, read_frames, write_clip

if TYPE_CHECKING:
    from posemill.web.actions import Actions

STATIC = Path(__file__).parent / "static"
# What Python knows itself: the registry of a Windows may call a script plain text.
_TYPES = MimeTypes()
for _kind, _ending in (("mp4", ".m4v"), ("ogg", ".ogv"), ("x-matroska", ".mkv")):
    _TYPES.add_type(f"video/{_kind}", _ending)
_BYTES = "application/octet-stream"
_WITH_CLIPS: tuple[FolderKind, ...] = ("extraction", "prepared")
_THREADS = 8  # that read at a time; what else is asked waits
_MOST_PICTURES = 40
_BODY_SECONDS = 10.0
_MOST_BODY = 4096  # bytes
# After which the process that reads the files of strangers is given up.
_FRAMES_SECONDS, _PLACE_SECONDS, _FILE_SECONDS = 20.0, 60.0, 300.0


@dataclass
class Site:
    """What all answers share."""

    library: Library
    tables: ClipTables = field(default_factory=ClipTables)
    media: ChildProcess = field(default_factory=lambda: ChildProcess("media"))
    actions: Actions | None = None  # where they are allowed
    # Keypoints are read in one thread: each that reads keeps some ten megabytes of Arrow's memory.
    reader: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "reader"))

    def run(self, request: Request, *kinds: Any) -> Entry:
        """Return the run that an address names."""
        return self.library.get(request.path_params["key"], *kinds)


def make_app(folders: Sequence[Path], *, allow_actions: bool = False) -> Starlette:
    """Return the app for the runs below some folders."""
    site = Site(Library(folders))
    if allow_actions:
        from posemill.web.actions import Actions

        site.actions = Actions()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS
        site.library.start()
        try:
            yield
        finally:
            site.reader.shutdown(wait=False, cancel_futures=True)
            site.media.close()
            site.tables.close()
            site.library.close()

    def about(handler: Callable[[Site, Request], Any]) -> Callable[[Request], Any]:
        def answer(request: Request) -> Any:
            value = handler(site, request)
            return value if isinstance(value, Response) else json_answer(request, value)

        return answer

    routes = [
        Route("/", about(_page)),
        Route("/static/{name}", about(_page)),
        Route("/api/site", about(_site)),
        Route("/api/runs", about(_runs)),
        Route("/api/runs/{key}", about(lambda site, ask: describe(site.run(ask), site.library))),
        *(Route(f"/api/runs/{{key}}/{name}", about(handler)) for name, handler in _OF_RUN.items()),
        Route("/api/runs/{key}/actions", partial(_act, site), methods=["POST"]),
        Route("/favicon.ico", lambda request: RedirectResponse("/static/icon.svg")),
    ]
    handlers: dict[Any, Any] = dict.fromkeys(READ_ERRORS, answer_error)
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)


def _page(site: Site, request: Request) -> Response:
    path = STATIC / request.path_params.get("name", "index.html")
    if path not in STATIC.iterdir():
        raise PosemillError("there is no such file")
    headers = {"cache-control": "no-cache"}
    return FileResponse(path, headers=headers, media_type=_TYPES.guess_type(path.name)[0])


def _site(site: Site, request: Request) -> Any:
    is_allowed = site.actions is not None
    return {"version": __version__, "folders": site.library.folders, "allow_actions": is_allowed}


def _runs(site: Site, request: Request) -> Any:
    runs = [row_of(entry) for entry in site.library.entries()]
    is_complete = site.library.has_looked.is_set()
    return {"runs": runs, "note": site.library.note, "is_complete": is_complete}


def _failures(site: Site, request: Request) -> Any:
    return read_failed_files(site.run(request, "extraction").folder, text_of(request, "reason"))


def _predictions(site: Site, request: Request) -> Any:
    cell = {name: request.query_params.get(name) for name in ("split", "label", "predicted")}
    limit = whole_of(request, "limit", 100, least=1, most=500)
    return choose_predictions(site.run(request, "training").folder, cell, limit)


def _clip(site: Site, request: Request) -> Any:
    from posemill.web.clip_data import describe_clip

    return site.reader.submit(describe_clip, _named(site, request)).result()


def _others(site: Site, request: Request) -> Any:
    """Return which other runs have a clip, to be compared with it."""
    from posemill.web.clip_data import has_clip

    clip = _named(site, request)
    return [
        {"key": entry.key, "name": entry.name}
        for entry in site.library.entries()
        if entry.kind == "extraction" and entry.key != clip.entry.key
        if has_clip(replace(clip, entry=entry))
    ]


def _compare(site: Site, request: Request) -> Any:
    from posemill.web.clip_data import compare_clips

    clip = _named(site, request)
    other = site.library.get(text_of(request, "other"), *_WITH_CLIPS)
    return site.reader.submit(compare_clips, clip, replace(clip, entry=other)).result()


def _points(site: Site, request: Request) -> Response:
    """Answer with some frames of a clip as bytes, or with the other people in them."""
    from posemill.web import clip_data

    start = whole_of(request, "start", 0, most=1 << 40)
    most = clip_data.MOST_FRAMES
    count = whole_of(request, "count", most, least=1, most=most)
    clip = site.reader.submit(clip_data.read_window, _named(site, request), start, count).result()
    is_of_people = request.url.path.endswith("/people")
    pack = clip_data.pack_people if is_of_people else clip_data.pack_points
    return Response(pack(clip), media_type=_BYTES)


def _frames(site: Site, request: Request) -> Response:
    """Answer with pictures: how many, the bytes of each (0: gone), then the JPEGs themselves."""
    start = whole_of(request, "start", 0, most=1 << 40)
    count = whole_of(request, "count", 1, least=1, most=_MOST_PICTURES)
    side = whole_of(request, "side", 720, least=32, most=1920)
    asked = _named(site, request), start, count, side
    jpegs = site.media.ask(read_frames, *asked, seconds=_FRAMES_SECONDS)
    head = struct.pack(f"<{1 + len(jpegs)}I", len(jpegs), *map(len, jpegs))
    return Response(b"".join([head, *jpegs]), media_type=_BYTES)


def _video(site: Site, request: Request) -> Response:
    path = site.media.ask(find_video, _named(site, request), seconds=_PLACE_SECONDS)
    os.close(open_plain(path))  # no link, no pipe; says what is wrong with it
    return FileResponse(path, media_type=_TYPES.guess_type(path.name)[0] or _BYTES)


def _file(site: Site, request: Request) -> Response:
    kind = text_of(request, "as")
    if kind not in FILE_KINDS:
        raise not_among("as", kind[:40], FILE_KINDS)
    address = _named(site, request)
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="posemill_serve_"))
        target = Path(folder) / f"clip.{kind}"
        site.media.ask(write_clip, address, kind, target, seconds=_FILE_SECONDS)
        clean_up = BackgroundTask(stack.pop_all().close)
    name = "_".join(safe_parts(f"{address.split}/{address.clip_id}")) + f".{kind}"
    return FileResponse(target, filename=name, media_type=_BYTES, background=clean_up)


async def _act(site: Site, request: Request) -> Response:
    """Answer the only question that changes anything; see `actions`."""
    if site.actions is None:
        return refusal(request, "this server only shows: start it with --allow-actions", 403)
    if request.headers.get("content-type") != "application/json" or "origin" not in request.headers:
        return refusal(request, "only the page itself may ask this", 403)
    try:
        asked = parse_json(await asyncio.wait_for(_small_body(request), _BODY_SECONDS))
        action, word = str(asked["action"]), str(asked.get("confirm", ""))
    except (ValueError, TypeError, LookupError, AttributeError, ClientDisconnect, TimeoutError):
        return refusal(request, "expected an action", 400)
    entry = site.run(request)
    done = await anyio.to_thread.run_sync(site.actions.ask, entry, action, word)
    return json_answer(request, done)


async def _small_body(request: Request) -> bytes:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_BODY:
            raise ValueError("too large")
    return body


def _named(site: Site, request: Request) -> ClipAddress:
    """Return the run, the split and the id that an address names."""
    entry = site.run(request, *_WITH_CLIPS)
    return ClipAddress(entry, text_of(request, "split"), text_of(request, "id"))


_OF_RUN: dict[str, Callable[[Site, Request], Any]] = {
    "failures": _failures,
    "predictions": _predictions,
    "clips": lambda site, request: site.tables.page(site.run(request, *_WITH_CLIPS), request),
    "choices": lambda site, request: site.tables.choices(site.run(request, *_WITH_CLIPS)),
    "clip": _clip,
    "points": _points,
    "people": _points,
    "others": _others,
    "compare": _compare,
    "frames": _frames,
    "video": _video,
    "file": _file,
}
