"""Models on the Hub: the library's own client against a server on this machine, and what is said without it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from graphbench.errors import UserError
from graphbench.train.hub import local_folder
from tests.paths import ROOT

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONTENT = {"model.safetensors": b"parameters", "config.yaml": b"name: rings\n", "setup.py": b"never downloaded"}


class Hub(BaseHTTPRequestHandler):
    """The two addresses of the Hub that the client asks for a repository ``me/rings``."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/me/rings"):
            siblings = [{"rfilename": name} for name in CONTENT]
            facts = {"private": False, "tags": [], "downloads": 0}
            listed = json.dumps({"id": "me/rings", "sha": COMMIT, "siblings": siblings, **facts})
            if "/tree/" in path:
                files = [{"type": "file", "path": n, "size": len(c), "oid": COMMIT} for n, c in CONTENT.items()]
                listed = json.dumps(files)
            self._answer(listed.encode(), "application/json")
        elif path.startswith("/me/rings/resolve/") and path.rpartition("/")[2] in CONTENT:
            self._answer(CONTENT[path.rpartition("/")[2]], "application/octet-stream")
        else:
            self.send_error(404)

    do_HEAD = do_GET

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{hashlib.sha1(body).hexdigest()}"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("huggingface_hub") is None, reason="huggingface_hub is not installed")
def test_a_folder_is_downloaded_once_and_only_what_is_read(address: str, tmp_path: Path) -> None:
    program = (
        "import sys\nfrom graphbench.train.hub import local_folder\n"
        "folder = local_folder(sys.argv[1])\nprint(sorted(path.name for path in folder.iterdir()), folder.name)\n"
    )

    def download(source: str, endpoint: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1"}
        environment |= {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
        command = [sys.executable, "-c", program, source]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    done = download("hf://me/rings", address)
    assert done.stdout == f"['config.yaml', 'model.safetensors'] {COMMIT}\n", done.stderr
    again = download("hf://me/rings", "http://127.0.0.1:9")  # nobody listens: the copy is found
    assert again.stdout == done.stdout, again.stderr
    missing = download("hf://me/squares@v2", address)
    assert "UserError: hf://me/squares@v2: not downloaded (" in missing.stderr


def test_a_path_stays_a_path_and_a_missing_library_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    assert local_folder("results/rings") == Path("results/rings")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match=r"^hf://me/rings: models on the Hub need huggingface_hub"):
        local_folder("hf://me/rings")
