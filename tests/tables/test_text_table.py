"""Three ways to write a table: what is escaped, how the best are marked, what is aligned."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from graphbench.tables.text_table import TextCell, TextTable, html, latex, markdown

NASTY = r"a_b & 50 % | *x* <i>#1</i> $\alpha$ {y}~^ `code` [z](u)"


def _sheet(name: str = "SGFormer") -> TextTable:
    marked = [TextCell("82.4 ± 0.8", 1), TextCell("81.0 ± 1.0", 2, "3 of 5"), TextCell("80.0 ± 2.0", 3)]
    plain = [TextCell("-1.5 (-2.0 sd)"), TextCell("", None), TextCell("4 of 5 < 1")]
    groups = [[[TextCell(name), *marked], [TextCell(""), *plain]], [[TextCell("GCN"), *plain]]]
    notes = ["read at the best epoch"]
    return TextTable(["model", "Cora", "50 %", "x"], groups, "A & B", notes, explains_marks=True)


class _Page(HTMLParser):
    """Tags in balance, the text of the cells, and nothing loaded from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[list[str]] = []
        self.marks: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not {"src", "href"} & {name for name, _ in attrs}
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.cells[-1][-1] += data
        if self.open and self.open[-1] in ("b", "u", "i"):
            self.marks.append((self.open[-1], data))


def test_markdown_is_padded_and_marks_by_words() -> None:
    lines = markdown([_sheet()]).splitlines()
    assert lines[:2] == ["A & B", ""]
    assert lines[2:7] == [
        "| model    |                 Cora |                     50 % |                x |",
        "| -------- | -------------------: | -----------------------: | ---------------: |",
        "| SGFormer | **82.4 ± 0.8** (1st) | 81.0 ± 1.0 (2nd, 3 of 5) | 80.0 ± 2.0 (3rd) |",
        "|          |       -1.5 (-2.0 sd) |                          |       4 of 5 < 1 |",
        "| GCN      |       -1.5 (-2.0 sd) |                          |       4 of 5 < 1 |",
    ]
    assert lines[8:] == ["- 1st, 2nd, 3rd: the best measured means of a column.", "- read at the best epoch"]
    without = TextTable(["a"], [[[TextCell("b")]]])
    assert markdown([without]) == "| a   |\n| --- |\n| b   |\n"
    assert markdown([without, without]).count("\n\n") == 1


def test_markdown_escapes_what_would_be_markup() -> None:
    row = markdown([_sheet(NASTY)]).splitlines()[4]
    expected = r"a_b & 50 % \| \*x\* \<i>#1\</i> $\\alpha$ {y}\~^ \`code\` \[z](u)"
    assert row.startswith(f"| {expected} | **82.4")
    assert len(re.findall(r"(?<!\\)\|", row)) == 5
    assert markdown([TextTable(["_a_"], [[[TextCell("x\ny")]]])]).splitlines()[0::2] == [r"| \_a\_ |", "| x y   |"]


def test_latex_is_balanced_and_escaped() -> None:
    text = latex([_sheet(NASTY)])
    for name in ("table", "tabular"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}") == 1
    assert r"\begin{tabular}{lrrr}" in text
    assert [text.count(rf"\{rule}") for rule in ("toprule", "midrule", "bottomrule")] == [1, 2, 1]
    body = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert [len(re.findall(r"(?<!\\)&", line)) for line in body] == [3, 3, 3, 3]
    marks = r"\textbf{82.4 $\pm$ 0.8} & \underline{81.0 $\pm$ 1.0} (3 of 5) & \textit{80.0 $\pm$ 2.0} \\"
    assert body[1].endswith(marks)
    assert body[2] == r" & $-$1.5 ($-$2.0 sd) &  & 4 of 5 \textless{} 1 \\"
    name = r"a\_b \& 50 \% \textbar{} *x* \textless{}i\textgreater{}\#1\textless{}/i\textgreater{} "
    assert body[1].startswith(name + r"\$\textbackslash{}alpha\$ \{y\}\textasciitilde{}\textasciicircum{} `code`")
    bare = re.sub(r"\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")
    assert r"\caption{A \& B}" in text


def test_a_row_that_starts_like_an_argument_is_protected_in_latex() -> None:
    for start in ("[2] GCN", "*GCN"):
        assert "\n{}" + start in latex([_sheet(start)])
    assert "ANS-1 & " in latex([_sheet("ANS-1")]), "a hyphen stays one"


def test_html_is_one_balanced_page() -> None:
    page = _Page(html([_sheet(NASTY), _sheet()]))
    assert page.open == []
    assert page.cells[0] == ["model", "Cora", "50 %", "x"]
    assert page.cells[1] == [NASTY, "82.4 ± 0.8", "81.0 ± 1.0 (3 of 5)", "80.0 ± 2.0"]
    assert page.cells[2][3] == "4 of 5 < 1"
    assert page.marks[:3] == [("b", "82.4 ± 0.8"), ("u", "81.0 ± 1.0"), ("i", "80.0 ± 2.0")]
    assert "<title>A &amp; B</title>" in html([_sheet()])
