"""Pictures of the report and the site for docs/screens, at desktop and phone width, light and dark.

``python -m scripts.screenshots`` builds both and opens them in headless Chromium (apt-get install chromium). Look at
what it has written before it is committed.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

from graphbench.report import cli as report
from tests.chromium import browser

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs/screens"
SIZES = {"desktop": (1280, 860), "phone": (390, 844)}
COLORS = 96
"""Of a picture: text and lines need no more, and the files are a third as large."""


def main() -> int:
    """Writes the pictures."""
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        stored = str(ROOT / "results/measured/records")
        title = "graphbench: measured results"
        report.main([stored, "--title", title, "--out", str(place / "report.html")])
        build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(place / "site")]
        subprocess.run(build, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True)
        pages = {"report": place / "report.html", "site": place / "site/index.html"}
        pages["api"] = place / "site/docs/api/layers.html"
        with browser(place / "profile") as page:
            for name, path in pages.items():
                for size, (width, height) in SIZES.items():
                    for dark in (False, True):
                        page.open(path, width=width, height=height, dark=dark)
                        page.value("localStorage.clear()")  # the site keeps the scheme of the first visit
                        page.open(path, width=width, height=height, dark=dark)
                        time.sleep(0.5)  # fonts and the site's script
                        _save(page.screenshot(), f"{name}-{size}-{'dark' if dark else 'light'}")
            page.open(place / "report.html", width=1280, height=400)
            page.value("window.scrollTo({top: document.querySelector('.filter').offsetTop - 12, behavior: 'instant'})")
            time.sleep(0.5)
            _save(page.screenshot(), "leaderboards")
    print(f"wrote {OUT}: {', '.join(sorted(path.name for path in OUT.iterdir()))}")
    return 0


def _save(content: bytes, name: str) -> None:
    Image.open(io.BytesIO(content)).convert("RGB").quantize(COLORS).save(OUT / f"{name}.png", optimize=True)


if __name__ == "__main__":
    sys.exit(main())
