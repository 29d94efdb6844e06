#!/usr/bin/env bash
# Sets up .venv on first use, then runs main.py with the same arguments. Without --cfg: GPS, DFi-Former and SFi-Former on
# a small generated data set, compared at the end (the last line of standard output is SFi-Former's).
called_from=$PWD
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
main=$PWD/main.py python=$PWD/.venv/bin/python

for argument in "$@"; do
    case $argument in
        --cfg | --cfg=* | -h | --help) cd "$called_from" && exec "$python" "$main" "$@" ;;
    esac
done
exec "$python" "$main" --cfg configs/quickstart-gps.yaml configs/quickstart-dfi.yaml configs/quickstart.yaml "$@"
