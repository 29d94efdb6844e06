#!/usr/bin/env bash
# Sets up .venv on first use, then runs main.py with the same arguments; without --cfg: configs/quickstart.yaml.
called_from=$PWD
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
main=$PWD/main.py python=$PWD/.venv/bin/python quickstart=$PWD/configs/quickstart.yaml

for argument in "$@"; do
    case $argument in
        --cfg | --cfg=* | -h | --help) cd "$called_from" && exec "$python" "$main" "$@" ;;
    esac
done
exec "$python" "$main" --cfg "${quickstart#"$PWD"/}" "$@"
