#!/usr/bin/env bash
# Same set-up as run.sh, then lint, types and the test suite but for its long part, which `scripts/test.sh -m slow` runs.
# Arguments go to pytest.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
unset PYTHONDONTWRITEBYTECODE  # pytest keeps what it makes of assertions
# One torch thread per worker: two workers on two cores are faster than one worker with two threads.
export OMP_NUM_THREADS=1
exec .venv/bin/python -m pytest -n "${PYTEST_WORKERS:-2}" --dist worksteal "$@"
