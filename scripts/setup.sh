# Sourced by run.sh and test.sh: creates .venv on first use and leaves it alone while setup.cfg and constraints.txt
# stay as they are. PYTHON=/path/to/python3.12 chooses the interpreter; pip's own variables (index, cache) are honoured.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

stamp=.venv/.graphbench-installed
wanted=$(cat setup.cfg constraints.txt | sha256sum | cut -d' ' -f1)

if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    python=${PYTHON:-python3}
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "graphbench needs Python 3.11 or newer; '$python' is $("$python" --version 2>&1 || echo 'not there')." \
             "Set PYTHON=/path/to/python3.11." >&2
        exit 2
    fi
    echo "First use (or new requirements): installing into .venv, a few minutes ..." >&2
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,test]' >&2
    echo "$wanted" > "$stamp"
fi
