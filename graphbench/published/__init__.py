"""What papers have printed: results/published (table.py), its metrics and data sets under our names (scales.py)."""
