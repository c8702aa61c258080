"""A headless chromium of the width of a phone, spoken to through pipes: no driver, no port."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
# What sticks out of the screen, or out of its own box.
STICKING_OUT = """[...document.querySelectorAll('body *')].filter(each =>
  each.getBoundingClientRect().right > innerWidth + 0.5
  || (each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).display != 'inline'
      && !each.closest('svg'))
).map(each => each.tagName + ' ' + each.className + ' ' + each.textContent.slice(0, 40))"""
# Sizes of text in pixels of the screen: a chart that is scaled down scales its text too.
TEXT_SIZES = """[...document.querySelectorAll('body *')].filter(each =>
  [...each.childNodes].some(node => node.nodeType == 3 && node.data.trim())
).map(each => parseFloat(getComputedStyle(each).fontSize) * (each.closest('svg')
  ? each.closest('svg').getBoundingClientRect().width / each.closest('svg').viewBox.baseVal.width
  : 1))"""


class Chromium:
    """One page in a browser.

    Args:
        profile: An empty folder.
        size_wh: Of the screen, in CSS pixels.
    """

    def __init__(self, profile: Path, size_wh: tuple[int, int]) -> None:
        to_child, from_us = os.pipe()
        to_us, from_child = os.pipe()
        # The browser reads commands from 3 and answers on 4.
        script = f'exec "$0" "$@" 3<&{to_child} 4>&{from_child}'
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                 "--disable-dev-shm-usage", f"--user-data-dir={profile}"]  # fmt: skip
        self._process = subprocess.Popen(
            ["bash", "-c", script, str(PROGRAM), *flags],
            pass_fds=(to_child, from_child), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_child)
        os.close(from_child)
        self._write, self._read = os.fdopen(from_us, "wb", 0), os.fdopen(to_us, "rb")
        self._number, self._session = 0, ""
        pages = self._ask("Target.getTargets")["targetInfos"]
        page = next(each["targetId"] for each in pages if each["type"] == "page")
        answer = self._ask("Target.attachToTarget", targetId=page, flatten=True)
        self._session = answer["sessionId"]
        width, height = size_wh
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=True)  # fmt: skip
        self._ask("Page.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._write.close()
        self._read.close()
        self._process.kill()
        self._process.wait()

    def open(self, file: Path) -> None:
        """Show a file, and wait until it stands."""
        self._ask("Page.navigate", url=file.resolve().as_uri())
        while self.run("document.readyState + location.protocol") != "completefile:":
            pass

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        return self._ask("Runtime.evaluate", expression=script, returnByValue=True)["result"].get(
            "value"
        )

    def screenshot(self, file: Path) -> None:
        """Write the whole page, however long, as PNG."""
        answer = self._ask("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(answer["data"]))

    def _ask(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads(self._answer())
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _answer(self) -> bytes:
        letters = bytearray()
        while (letter := self._read.read(1)) != b"\0":
            assert letter, "chromium ended"
            letters += letter
        return bytes(letters)
