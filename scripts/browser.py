# SPDX-License-Identifier: Apache-2.0
"""Opens pages in a headless Chromium, by the DevTools protocol over a pair of pipes."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "google-chrome")


def find_browser() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


class BrowserError(RuntimeError):
    pass


class Browser:
    """One process of the browser with one page. Not thread-safe."""

    def __init__(self, program: str, seconds: float = 180) -> None:
        self.seconds = seconds
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self.requests = os.pipe()
        answers, to_write = os.pipe()
        self.answers = open(answers, "rb")
        # The browser reads requests from descriptor 3, and writes answers to 4.
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        command = ["timeout", str(seconds), program, *options, f"--user-data-dir={self.folder.name}", "about:blank"]
        shell = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *command], pass_fds=(to_read, to_write), stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        self.number = 0
        self.events: list[dict[str, Any]] = []
        self.session: str | None = None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Log"):
            self.call(f"{part}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()
        os.close(self.requests)
        self.answers.close()
        self.folder.cleanup()

    def _ended(self) -> str:
        return f"expected an answer of the browser, got its end (it has {self.seconds:g} s)"

    def _read(self) -> dict[str, Any]:
        message = bytearray()
        while (byte := self.answers.read(1)) not in (b"\0", b""):
            message += byte
        if not message:
            raise BrowserError(self._ended())
        return json.loads(message)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Raises BrowserError if the browser refuses the call."""
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        try:
            os.write(self.requests, json.dumps(request).encode() + b"\0")
        except BrokenPipeError as error:
            raise BrowserError(self._ended()) from error
        while True:
            answer = self._read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, event: str) -> None:
        while not any(one.get("method") == event for one in self.events):
            self.events.append(self._read())

    def open(self, page: Path, width: int, height: int, scheme: str, scale: float = 1) -> None:
        """Loads a page in a window of CSS pixels. `scheme` is light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        self.wait_for("Page.loadEventFired")

    def errors(self) -> list[str]:
        """The exceptions and messages of the page that has been opened."""
        texts = [str(one["params"]["exceptionDetails"]) for one in self.events if one.get("method") == "Runtime.exceptionThrown"]
        kinds = ("Runtime.consoleAPICalled", "Log.entryAdded")
        return texts + [str(one["params"]) for one in self.events if one.get("method") in kinds]

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression. Raises BrowserError if it throws."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise BrowserError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def screenshot(self, path: Path, clip: tuple[int, int, int, int] | None = None, **options: Any) -> None:
        """Writes what is in the window, or a part of the page: left, top, width, height."""
        if clip:
            left, top, width, height = clip
            options["clip"] = {"x": left, "y": top, "width": width, "height": height, "scale": 1}
            options["captureBeyondViewport"] = True
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **options)["data"]))
