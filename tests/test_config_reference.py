"""The generated page is the one in the repository."""

import subprocess
import sys

from tests.paths import ROOT

PRINT = "from scripts.config_reference import reference; print(reference(), end='')"


def test_the_reference_is_current() -> None:
    # A process of its own: plug-ins of other tests are no part of the page.
    printed = subprocess.run([sys.executable, "-c", PRINT], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    page = (ROOT / "docs" / "config-reference.md").read_text(encoding="utf-8")
    assert page == printed, "run: python -m scripts.config_reference"
