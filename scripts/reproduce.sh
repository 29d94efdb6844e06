#!/usr/bin/env bash
# Trains what one paper's tables need and ends in the tables: scripts/reproduce.sh sfi|sgformer|geco|gradformer|ffgt
# [--quick] [--jobs N] [--dry_run]. Same set-up as run.sh. docs/reproducing.md says what to expect.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
exec .venv/bin/python scripts/reproduce.py "$@"
