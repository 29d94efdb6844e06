"""One self-contained HTML page from run records (``graphbench report``).

::

    gather.py                              records -> ``Configuration``s -> ``Board``s, one per data set
    leaderboard.py figures.py details.py   the sections, as HTML text
    ranking.py critical_difference.py      models over several data sets
    markup.py svg.py                       tables, and drawings whose colours follow the style sheet
    page.py report.css *.js                the page around them, which loads nothing from elsewhere
    cli.py                                 the command

Means, ranks and comparisons come from :mod:`graphbench.runs` and :mod:`graphbench.tables`, as those of the tables do.
"""
