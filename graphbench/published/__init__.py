"""Numbers that papers have printed: results/published (table.py), metrics and data sets under our names (scales.py)."""
