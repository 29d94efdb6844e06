"""Lists of everything there is: ``graphbench list [TOPIC] [PATTERN]``.

``graphbench list`` names the topics; ``graphbench list layers`` has a line per layer with its paper; ``graphbench list
configs '*cora*'`` those whose name fits. Everything is read from the components and files themselves.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from graphbench import plug_ins, registry, shipped
from graphbench.command_line import CommandParser
from graphbench.errors import UserError, unknown
from graphbench.exit_codes import exit_codes


@dataclass(frozen=True)
class Item:
    """One line.

    Attributes:
        name: name in configurations and commands.
        about: one line.
        source: paper, published table, licence; of a key its default and its type or values.
    """

    name: str
    about: str
    source: str = ""


NAMESPACES = {
    "models": ("models",),
    "layers": ("layers/attention", "layers/local", "layers/blocks"),
    "encoders": ("encoders/node", "encoders/edge", "encoders/positional"),
    "heads": ("heads",),
    "metrics": ("tasks/metrics",),
    "losses": ("tasks/losses",),
    "optimizers": ("train/optimizers",),
    "schedules": ("train/schedules",),
    "samplers": ("data/large",),
}
"""Topics whose lines are components."""


def components(namespaces: Sequence[str]) -> Iterator[Item]:
    """A line per component, with its paper: the first link of the summaries of class and module, else of the rest."""
    for namespace in namespaces:
        for component in registry.components(namespace):
            summary, _, text = (inspect.getdoc(component) or "").partition("\n")
            about_module, _, module_text = (inspect.getdoc(inspect.getmodule(component)) or "").partition("\n")
            papers = re.findall(r"arxiv\.org/abs/([\d.]+\d)", "\n".join((summary, about_module, text, module_text)))
            summary = re.sub(r"(, | \()https://arxiv\.org/abs/[\d.]+\d\)?", "", summary)
            summary = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", summary)
            yield Item(component.registered_name, summary, f"arXiv:{papers[0]}" if papers else "")


def datasets() -> Iterator[Item]:
    """A line per data set that declares what it looks like: task, metric, licence; then what PyG reads."""
    known = registry.names(registry.DATASETS)
    for name in known:
        builder = registry.lookup(registry.DATASETS, name)
        for dataset in builder.names:
            try:
                card = registry.construct(builder, {"name": dataset}).card
            except (TypeError, ValueError, UserError):  # needs more than its name
                card = None
            about = "" if card is None else f"{card.task} {card.task_type}, {card.metric}"
            yield Item(f"{name}/{dataset}", about, "" if card is None else card.licence)
        if not builder.names:
            yield Item(f"{name}/...", (inspect.getdoc(builder) or "").partition("\n")[0])
    from torch_geometric import datasets as library  # a second

    for name in library.__all__:
        if f"PyG-{name}" not in known:
            text = " ".join((inspect.getdoc(getattr(library, name)) or "").split())
            about = re.sub(r":\w+:`+~?([^`]*)`+", r"\1", re.split(r"(?<=\.)\s", text)[0]).replace("``", "")
            yield Item(f"PyG-{name}/...", about, "read by PyTorch Geometric, measured")


def configurations() -> Iterator[Item]:
    """A line per shipped configuration: its first comment."""
    for path in shipped.configurations():
        yield Item(_below_configs(path), _comment(path))


def sweeps() -> Iterator[Item]:
    """A line per shipped sweep: its first comment, and the published table beside which its results are shown."""
    for path in shipped.sweeps():
        published = re.search(r"^sweep:.*?published: (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        yield Item(path.stem, _comment(path), f"results/published/{published[1]}.csv" if published else "")


def keys() -> Iterator[Item]:
    """A line per configuration key, with its default and what it may be."""
    from graphbench.config.reference import allowed_text, key_entries

    for entry in key_entries():
        default = "none" if entry.key.default is None else repr(entry.key.default)
        yield Item(entry.name, entry.meaning, f"{default}; {allowed_text(entry.key)}")


TOPICS: dict[str, Callable[[], Iterator[Item]]] = {
    **{topic: functools.partial(components, namespaces) for topic, namespaces in NAMESPACES.items()},
    "datasets": datasets,
    "keys": keys,
    "configs": configurations,
    "sweeps": sweeps,
}


@exit_codes
def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the topics, or the lines of one."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help=", ".join(TOPICS))
    parser.add_argument("pattern", nargs="?", default="*", metavar="PATTERN", help="names that fit, e.g. '*cora*'")
    options = parser.parse_args(arguments)
    if options.topic is None:
        for topic in TOPICS:
            print(f"{topic.ljust(11)} graphbench list {topic}")
        return 0
    if options.topic not in TOPICS:
        raise unknown("topic", options.topic, TOPICS)
    plug_ins.load_installed()
    items = [item for item in TOPICS[options.topic]() if fnmatch(item.name.lower(), options.pattern.lower())]
    if not items:
        raise UserError(f"no name in {options.topic} fits '{options.pattern}'.")
    width = max(len(item.name) for item in items)
    for item in items:
        source = f"[{item.source}]" if item.source else ""
        print("  ".join(filter(None, [item.name.ljust(width), item.about.replace("``", ""), source])))
    return 0


def _below_configs(path: Path) -> str:
    return path.relative_to(shipped.root() / "configs").with_suffix("").as_posix()


def _comment(path: Path) -> str:
    comment = re.match(r"((?:# .*\n)+)", path.read_text(encoding="utf-8"))
    text = re.sub(r"\n?# ", " ", comment[1]).strip() if comment else ""
    return re.sub(r";$", ".", re.split(r"(?<=[.;]) ", text)[0])
