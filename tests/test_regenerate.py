"""What is generated from code, configurations and records is what the repository holds."""

import subprocess
import sys

import pytest

from tests.paths import ROOT


@pytest.mark.slow
def test_everything_generated_is_current() -> None:
    # A process of its own: plug-ins of other tests are no part of the pages.
    command = [sys.executable, "-m", "scripts.regenerate", "--check"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, f"{checked.stdout}{checked.stderr}run: python -m scripts.regenerate"
