"""What ``study/claims.py`` is made of: claims, published numbers and run records in, verdicts out."""
