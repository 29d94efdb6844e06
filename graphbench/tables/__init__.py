"""Tables from run records: one row per configuration, or a sweep compared with what a paper has published.

::

    configurations.py cell_specs.py  a row per configuration; the cells of a sweep, or of models by data sets
    sweep_table.py significance.py   the numbers: means, ranks, differences, t-tests (no text)
    sweep_layout.py sweep_csv.py     the numbers as rows of text, or as one CSV line per cell
    sweep_notes.py                   below the rows: marks, what is missing, what is not of one kind
    provenance.py                    size, time, commit and hardware of the runs behind a number
    text_table.py                    Markdown, LaTeX and HTML
    cli.py                           graphbench tables

Numbers come from :func:`graphbench.runs.aggregate.aggregate` only.
"""
