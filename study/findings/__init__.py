"""Small programs behind entries of docs/LOG.md and claims; what is independent of our layers says so."""
