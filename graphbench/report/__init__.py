"""What ``scripts/report.py`` is made of: records in, one page out."""
