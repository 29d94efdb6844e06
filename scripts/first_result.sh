#!/usr/bin/env bash
# Time from a fresh clone to the first result of a user's own: clones, installs, trains on a table of two CSV files and prints
# the table of results, with the seconds of each step. bash scripts/first_result.sh [FOLDER], default a new temporary one.
set -euo pipefail
source_of=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
place=${1:-$(mktemp -d)}
mkdir -p "$place"
begin=$SECONDS

step() { # step NAME COMMAND...: runs it, and says how long it took
    local name=$1 since=$SECONDS
    shift
    "$@"
    echo "$name: $((SECONDS - since)) s" >&2
}

write_own_data() {
    mkdir -p chords
    python3 - <<'EOF'
import csv, random

tables = {"nodes": [("graph", "node", "charge")], "edges": [("graph", "source", "target")], "graphs": [("graph", "y")]}
for number in range(60):
    draw = random.Random(number)
    size = draw.randint(8, 14)
    pairs = [(node, (node + 1) % size) for node in range(size)] + [draw.sample(range(size), 2)] * (number % 2 * 3)
    tables["nodes"] += [(number, node, round(draw.gauss(0, 1), 3)) for node in range(size)]
    tables["edges"] += [(number, *ends) for pair in pairs for ends in (tuple(pair), tuple(pair)[::-1])]
    tables["graphs"].append((number, number % 2))
for name, rows in tables.items():
    with open(f"chords/{name}.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
EOF
    cat > chords.yaml <<'EOF'
_base_: [configs/_base_/model/gps.yaml, configs/_base_/train/gps.yaml]
dataset:
  {format: custom, name: chords, task: graph, task_type: classification, node_encoder: True,
   node_encoder_name: LinearNode, split_mode: random, split: [0.6, 0.2, 0.2], custom: {path: chords}}
gt: {layer_type: GIN+SFi, layers: 2, n_heads: 2, dim_hidden: 32}
gnn: {dim_inner: 32}
optim: {base_lr: 0.002, max_epoch: 10, num_warmup_epochs: 1}
EOF
}

step "clone" git clone --quiet "$source_of" "$place/graphbench"
cd "$place/graphbench"
step "install" bash -c 'python3 -m venv .venv && .venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt .'
step "own data" write_own_data
step "train" .venv/bin/graphbench train chords.yaml --repeat 2 num_threads 1 # graphs this small gain nothing from a second
step "table" .venv/bin/graphbench tables results/chords
echo "from clone to first own result: $((SECONDS - begin)) s"
