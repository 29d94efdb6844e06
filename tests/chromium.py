"""A page in headless Chromium, driven through the DevTools protocol over two pipes: no driver, no port, no package.

https://chromedevtools.github.io/devtools-protocol: messages are JSON, each ended by a zero byte, on the browser's file
descriptors 3 (in) and 4 (out).
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page:
    """One tab.

    Attributes:
        messages: what the page wrote to the console and what it did not catch, so far.
    """

    def __init__(self, write: BinaryIO, read: BinaryIO) -> None:
        self._write, self._read = write, read
        self._number, self._session = 0, None
        self._waiting: list[dict[str, Any]] = []
        self._buffer = b""
        self.messages: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, path: Path, *, width: int, height: int = 844, dark: bool = False) -> None:
        """Shows a file in a viewport, a phone's below 600 px, and waits until it is loaded."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._call("Page.navigate", url=path.resolve().as_uri())
        while not any(each.get("method") == "Page.loadEventFired" for each in self._waiting):
            self._receive()
        self._waiting.clear()

    def value(self, expression: str) -> Any:
        """A JavaScript expression, evaluated in the page; of a promise what it comes to."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def allow_clipboard(self) -> None:
        """Lets the page write and read what is copied."""
        self._call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        self._call("Page.bringToFront")

    def press(self, key: str, code: int) -> None:
        """A key, down and up, on what has the focus."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": {"Enter": "\r", " ": " "}[key]} if kind == "keyDown" and key in ("Enter", " ") else {}
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def accessibility(self) -> list[dict[str, Any]]:
        """What a screen reader is told: nodes with role and name."""
        nodes: list[dict[str, Any]] = self._call("Accessibility.getFullAXTree")["nodes"]
        return nodes

    def screenshot(self, path: Path | None = None) -> bytes:
        """What is seen, as PNG."""
        data = base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])
        if path is not None:
            path.write_bytes(data)
        return data

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        self._write.flush()
        while (answer := self._receive()).get("id") != self._number:
            pass
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = os.read(self._read.fileno(), 1 << 16)
            assert chunk, "Chromium has ended"
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        method, content = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.messages.append(" ".join(str(each.get("value")) for each in content["args"]))
        elif method == "Runtime.exceptionThrown":
            self.messages.append(str(content["exceptionDetails"].get("exception", content)))
        elif method == "Log.entryAdded":
            self.messages.append(content["entry"]["text"])
        if method is not None:
            self._waiting.append(message)
        return message


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """Starts Chromium for one page.

    Args:
        profile: an empty folder for what the browser keeps.
    """
    assert PROGRAM is not None
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    # The shell moves the two pipes to 3 and 4, whatever numbers they have here.
    command = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
    options = [
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
        "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={profile}",
    ]  # fmt: skip
    process = subprocess.Popen(
        ["bash", "-c", command, "chromium", PROGRAM, *options],
        pass_fds=(theirs_in, theirs_out),
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        with os.fdopen(ours_out, "wb") as write, os.fdopen(ours_in, "rb") as read:
            yield Page(write, read)
    finally:
        process.terminate()
        process.wait(timeout=20)
