"""What ``scripts/claims.py`` is made of: claims, published numbers and run records in, verdicts out."""
