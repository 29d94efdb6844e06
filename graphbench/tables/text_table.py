"""Tables of text cells, and their Markdown, LaTeX and HTML: escapes, marks of the best, alignment.

pandas writes tables too, but Markdown only with a further package, LaTeX and HTML without groups of rows and notes.
"""

from __future__ import annotations

import html as html_text
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ORDINALS = {1: "1st", 2: "2nd", 3: "3rd"}


@dataclass(frozen=True)
class TextCell:
    """One cell.

    Attributes:
        text: plain, escaped by the format.
        rank: 1, 2 or 3 for what is marked as best, second, third.
        remark: follows in parentheses.
    """

    text: str
    rank: int | None = None
    remark: str = ""


@dataclass(frozen=True)
class TextTable:
    """A table.

    Attributes:
        header: headings.
        groups: rows that belong together, group by group.
        title: title above the table; empty: none.
        name: what LaTeX refers to it by, ``tab:<name>``; empty: nothing.
        notes: sentences below it.
        left: number of leading columns that hold words; the others are aligned to the right.
        explains_marks: whether a first note explains the marks of the best.
    """

    header: Sequence[str]
    groups: Sequence[Sequence[Sequence[TextCell]]]
    title: str = ""
    notes: Sequence[str] = ()
    left: int = 1
    explains_marks: bool = False
    name: str = ""

    @property
    def rows(self) -> list[Sequence[TextCell]]:
        """All rows."""
        return [row for group in self.groups for row in group]

    def noted(self, marks: str) -> list[str]:
        """The notes, the explanation of the marks first."""
        return [*([marks] if self.explains_marks else []), *self.notes]


def markdown(tables: Sequence[TextTable]) -> str:
    """GitHub's tables, columns padded, so that they can be read in a terminal, too."""
    return "\n".join(map(_markdown, tables))


def _markdown(table: TextTable) -> str:
    rows = [[_markdown_escape(heading) for heading in table.header]]
    rows += [[_decorated(cell, _markdown_escape, {1: "**{}**"}, ORDINALS) for cell in row] for row in table.rows]
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["-" * width if column < table.left else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    rows.insert(1, rule)
    lines = []
    for row in rows:
        padded = [
            cell.ljust(width) if column < table.left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("| " + " | ".join(padded) + " |")
    if table.title:
        lines = [_markdown_escape(table.title), "", *lines]
    notes = table.noted("1st, 2nd, 3rd: the best measured means of a column.")
    if notes:
        lines += ["", *(f"- {_markdown_escape(note)}" for note in notes)]
    return "\n".join(lines) + "\n"


def latex(tables: Sequence[TextTable]) -> str:
    """``table`` environments; needs the package booktabs."""
    return "\n".join(map(_latex, tables))


def _latex(table: TextTable) -> str:
    styles = {1: r"\textbf{{{}}}", 2: r"\underline{{{}}}", 3: r"\textit{{{}}}"}

    def line(cells: Sequence[str]) -> str:
        return " & ".join(cells) + r" \\"

    columns = "l" * table.left + "r" * (len(table.header) - table.left)
    lines = [r"% needs \usepackage{booktabs}", r"\begin{table}", r"\centering"]
    if table.title:
        lines.append(rf"\caption{{{_latex_escape(table.title)}}}")
    if table.name:
        lines.append(r"\label{tab:" + re.sub(r"[^\w.:-]+", "-", table.name) + "}")
    lines += [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        line([_latex_escape(heading) for heading in table.header]),
    ]
    for group in table.groups:
        lines.append(r"\midrule")
        lines += [line([_decorated(cell, _latex_escape, styles) for cell in row]) for row in group]
    lines += [r"\bottomrule", r"\end{tabular}"]
    notes = table.noted("Bold, underlined, italic: first, second, third of the measured means of a column.")
    lines += [rf"\par\smallskip{{\footnotesize {_latex_escape(note)}}}" for note in notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def html(tables: Sequence[TextTable]) -> str:
    """One page without anything from elsewhere."""
    title = html_text.escape(next((table.title for table in tables if table.title), "Results"))
    body = "\n".join(map(_html, tables))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )


def _html(table: TextTable) -> str:
    escape = html_text.escape
    styles = {1: '<b class="first">{}</b>', 2: '<u class="second">{}</u>', 3: '<i class="third">{}</i>'}

    def line(cells: Sequence[str], tag: str) -> str:
        classes = ["word" if column < table.left else "number" for column in range(len(cells))]
        inside = "".join(f'<{tag} class="{name}">{cell}</{tag}>' for name, cell in zip(classes, cells))
        return f"<tr>{inside}</tr>"

    lines = [f"<h2>{escape(table.title)}</h2>"] if table.title else []
    lines += [
        '<div class="wide"><table>',
        "<thead>",
        line([escape(heading) for heading in table.header], "th"),
        "</thead>",
    ]
    for group in table.groups:
        rows = [line([_decorated(cell, escape, styles) for cell in row], "td") for row in group]
        lines += ["<tbody>", *rows, "</tbody>"]
    lines.append("</table></div>")
    notes = table.noted("Bold, underlined, italic: first, second, third of the measured means of a column.")
    if notes:
        lines += ["<ul>", *(f"<li>{escape(note)}</li>" for note in notes), "</ul>"]
    return "\n".join(lines) + "\n"


_STYLE = """\
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h2 { font-size: 1.05rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; border-top: 2px solid; border-bottom: 2px solid; }
th, td { padding: .25rem .6rem; white-space: nowrap; text-align: right; font-variant-numeric: tabular-nums; }
.word { text-align: left; }
tbody { border-top: 1px solid gray; }
li { font-size: .9rem; }
"""


def _decorated(
    cell: TextCell, escape: Callable[[str], str], styles: dict[int, str], words: dict[int, str] | None = None
) -> str:
    """The text, marked by a style or a word, and the remark."""
    text = styles.get(cell.rank or 0, "{}").format(escape(cell.text))
    remarks = [(words or {}).get(cell.rank or 0, ""), escape(cell.remark)]
    inside = ", ".join(filter(None, remarks))
    return f"{text} ({inside})" if inside else text


def _markdown_escape(text: str) -> str:
    text = re.sub(r"[\\`*|~\[]|<(?=[\w/!?])", r"\\\g<0>", " ".join(text.split()))
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\_", text)  # inside a word GitHub leaves it alone


_GREEK = "αβγδεζηθικλμνξπρςστυφχψωΓΔΘΛΞΠΣΥΦΨΩ"
_GREEK_NAMES = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho varsigma sigma tau upsilon phi "
    "chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
)
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "→": r"$\to$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    **{letter: rf"$\{name}$" for letter, name in zip(_GREEK, _GREEK_NAMES.split(), strict=True)},
    **{character: "\\" + character for character in "&%$#_{}"},
}


def _latex_escape(text: str) -> str:
    text = re.sub(r"(?<![\w.])-(?=\d)", "\0", " ".join(text.split()))  # a minus, not a hyphen
    text = "".join(_LATEX.get(character, character) for character in text).replace("\0", "$-$")
    return "{}" + text if text[:1] in ("[", "*") else text  # behind \\ these would be read as its argument
