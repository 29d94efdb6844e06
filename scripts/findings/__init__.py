"""Small independent programs behind entries of docs/LOG.md; none of them uses our layers or our loop."""
