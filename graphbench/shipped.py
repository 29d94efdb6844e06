"""Configurations, sweeps, published tables and guides of the package, in a checkout or installed."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def root() -> Path:
    """The folder with ``configs``, ``docs`` and ``results/published``: the checkout, or ``share`` of a package."""
    return _PACKAGE.parent if is_checkout() else _PACKAGE / "share"


def is_checkout() -> bool:
    """Whether the package lies in a checkout; it is installed elsewhere."""
    return not (_PACKAGE / "share").is_dir()


def configuration(name: str | Path) -> Path:
    """The file that a name stands for.

    Args:
        name: a path; one below ``configs`` of the package (``configs/quickstart.yaml``, ``lrgb/sfi-pascal``); or the
            name of a configuration or sweep alone (``quickstart``, ``sgformer-table2``).

    Returns:
        An existing file, the first that fits in this order; the path itself where none does or several do.
    """
    path = Path(name)
    if path.is_file() or path.is_absolute() or not path.name:
        return path
    configs = root() / "configs"
    ending = path if path.suffix in (".yaml", ".yml") else path.with_name(path.name + ".yaml")
    for candidate in (root() / ending, configs / ending):
        if candidate.is_file():
            return candidate
    if len(path.parts) == 1:
        named = [file for file in configs.rglob("*.y*ml") if file.name == ending.name and "_base_" not in file.parts]
        if len(named) == 1:
            return named[0]
    return path


def beside(folder: Path, name: str) -> Path:
    """The file that a file in ``folder`` names: one relative to it, else a shipped one.

    Args:
        folder: of the file that names it.
        name: a path, or what :func:`configuration` takes.

    Returns:
        An existing file; ``folder / name`` where there is neither.
    """
    own = folder / name
    if own.is_file():
        return own
    found = root() / name if name.startswith("configs/") else configuration(name)
    return found if found.is_absolute() else own


def configurations() -> list[Path]:
    """Every complete configuration, sorted by path; fragments and sweeps left out."""
    configs = root() / "configs"
    return sorted(file for file in configs.rglob("*.yaml") if not {"_base_", "sweeps"} & set(file.parts))


def sweeps() -> list[Path]:
    """Every sweep file, sorted."""
    return sorted((root() / "configs" / "sweeps").glob("*.yaml"))
