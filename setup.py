"""Builds the package; what is static about it is in setup.cfg."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHARED = ("configs", "results/published")
"""Folders of the checkout that an installed package has below ``graphbench/share``, whole."""


class BuildWithShared(build_py):
    """Copies configurations, sweeps, published tables and guides into the package.

    An editable install has the checkout.
    """

    def run(self) -> None:
        """Builds the modules, then copies."""
        super().run()
        if self.editable_mode:
            return
        for folder in SHARED:
            target = Path(self.build_lib, "graphbench", "share", folder)
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(folder, target)
        guides = Path(self.build_lib, "graphbench", "share", "docs")
        guides.mkdir(parents=True, exist_ok=True)
        for guide in Path("docs").glob("*.md"):
            shutil.copy(guide, guides)


setup(cmdclass={"build_py": BuildWithShared})
