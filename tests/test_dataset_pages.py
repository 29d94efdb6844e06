"""The generated page is the one in the repository."""

import subprocess
import sys

from tests.paths import ROOT

PRINT = "from scripts.dataset_pages import page; print(page(), end='')"


def test_the_list_of_data_sets_is_current() -> None:
    # A process of its own: plug-ins of other tests are no part of the page.
    printed = subprocess.run([sys.executable, "-c", PRINT], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    page = (ROOT / "datasets" / "README.md").read_text(encoding="utf-8")
    assert page == printed, "run: python -m scripts.dataset_pages"
