"""Predictions of trained models on new graphs: ``graphbench predict RUN DATA --out predictions.csv``.

RUN is ``results/<config>`` (the mean over its runs, with deviations) or ``results/<config>/<run>``. DATA is what
``dataset.custom`` reads: a file, a folder with ``nodes.csv`` and ``edges.csv``, or ``file.py:function``; targets are
not needed. Of one run DATA may also be ``train``, ``val`` or ``test``: the examples of its split, with their numbers in
the data set and their targets. ``--out`` is .csv, .npz or .parquet, with a line per graph (or node).

``--calibrate`` adds what the prediction leaves open: probabilities after temperature scaling, and sets of classes
(``set_k``) or intervals (``lower_k``, ``upper_k``) that hold ``--coverage`` of the true targets.

``--embeddings`` writes the hidden states of one run (.npz): ``nodes`` (R, d) with ``graph`` and ``node`` (R,),
and ``graphs`` (G, d) where the model has one per graph; by default those that the prediction head reads. Predictions
are then written only where ``--out`` or ``--calibrate`` asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graphbench.command_line import CommandParser
from graphbench.exit_codes import exit_codes
from graphbench.frozen_imports import frozen_imports


@exit_codes
def main(arguments: Sequence[str] | None = None) -> int:
    """Predicts and writes the file."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("run", metavar="RUN", help="folder of a configuration or of one run, or hf://user/name")
    parser.add_argument(
        "data", metavar="DATA", help="graphs: a file, a folder, or file.py:function; of one run also train, val or test"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="default: predictions.csv; with --embeddings alone: none"
    )
    parser.add_argument("--device", default="cpu", help="default: cpu")
    parser.add_argument("--batch_size", type=int, metavar="N", help="graphs at a time; default: as in training")
    parser.add_argument(
        "--calibrate",
        metavar="DATA",
        help="graphs with targets that have trained no model, or the word validation: the examples of the runs",
    )
    parser.add_argument("--coverage", type=float, default=0.9, metavar="C", help="default: %(default)s")
    parser.add_argument("--embeddings", type=Path, metavar="FILE", help="write hidden states to this .npz")
    parser.add_argument("--module", metavar="NAME", help="of --embeddings: outputs of this module, e.g. layers.0")
    options = parser.parse_args(arguments)
    if options.module is not None and options.embeddings is None:
        parser.error("--module needs --embeddings FILE")
    if options.batch_size is not None and options.batch_size < 1:
        parser.error(f"--batch_size must be at least 1, received {options.batch_size}")
    with frozen_imports():
        from graphbench.data.datasets.custom import read_graphs
        from graphbench.data.splits import PARTS
        from graphbench.predict.embeddings import check_ending
        from graphbench.predict.trained import load_run
        from graphbench.train.accelerator import make_fabric

    try:
        device = make_fabric(options.device).device
    except ValueError as error:
        parser.error(f"--device: {error}")

    if options.embeddings is not None:
        check_ending(options.embeddings)
    model = load_run(options.run)
    predicts = options.embeddings is None or options.out is not None or options.calibrate is not None
    if predicts:
        model.check_predicts()
    examples = model.examples(options.data if options.data in PARTS else read_graphs(options.data)[0])
    if options.embeddings is not None:
        states = model.embeddings(examples, options.module, device=device, batch_size=options.batch_size)
        states.write(options.embeddings)
        print(f"wrote {options.embeddings}: {states}")
    if not predicts:
        return 0
    predictions = model.predict(examples, device=device, batch_size=options.batch_size)
    if options.calibrate is not None:
        known = None if options.calibrate == "validation" else read_graphs(options.calibrate)[0]
        calibration = model.calibrate(known, coverage=options.coverage)
        predictions = calibration.of(predictions)
        print(f"calibrated on {calibration.rows:,} examples: {calibration.summary}")
    out = options.out or Path("predictions.csv")
    predictions.write(out)
    models = f"{len(model.models)} model{'' if len(model.models) == 1 else 's'}"
    print(f"wrote {out}: {len(predictions.graph):,} rows, {models} of {options.run}")
    return 0
