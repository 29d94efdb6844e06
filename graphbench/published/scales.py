"""Metrics and data sets of the published tables: our names for them, and the scale of their numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Our metric and the unit behind a published one.

    Attributes:
        title: title for headings.
        maximize: True when larger is better.
        names: our metrics of the same quantity; the first that a record has is taken; none: nothing comparable.
        factor: published = factor * ours.
        split: split that it is read from.
        bounded: whether it lies between 0 and 1 (or 100), so that a point is one hundredth of that; of anything else
            (errors, seconds) a point is 1 % of the published value.
    """

    title: str
    maximize: bool
    names: tuple[str, ...] = ()
    factor: float = 1.0
    split: str = "test"
    bounded: bool = True

    @property
    def comparable(self) -> bool:
        """Whether a test score can be compared with it."""
        return bool(self.names) and self.split == "test"

    def point(self, published: float) -> float:
        """One point, in the published scale."""
        return 0.01 * (self.factor if self.bounded else abs(published))


def error(title: str, *names: str, split: str = "test") -> Scale:
    """A quantity that is better when lower and has no upper end."""
    return Scale(title, False, names, split=split, bounded=False)


ACCURACY = ("accuracy", "accuracy-SBM")  # of PATTERN and CLUSTER: the class-weighted one, which selects their epochs
METRICS = {
    "accuracy_fraction": Scale("accuracy", True, ACCURACY),
    "accuracy_percent": Scale("accuracy (%)", True, ACCURACY, 100.0),
    "f1_fraction": Scale("F1", True, ("f1",)),
    "micro_f1_percent": Scale("micro F1 (%)", True, ("f1-micro",), 100.0),
    "ap_fraction": Scale("average precision", True, ("ap",)),
    "mrr_fraction": Scale("mean reciprocal rank", True, ("mrr",)),
    "auroc_fraction": Scale("ROC AUC", True, ("auc",)),
    "auroc_percent": Scale("ROC AUC (%)", True, ("auc",), 100.0),
    "rocauc_percent": Scale("ROC AUC (%)", True, ("auc",), 100.0),
    "mae": error("MAE", "mae"),
    "valid_mae": error("MAE", "mae"),  # PCQM4Mv2: the public validation graphs serve as test set
    "train_mae": error("training MAE", "mae", split="train"),
    "test_dev_mae": error("MAE on test-dev"),  # its labels are not public
    "train_time_per_epoch_ms": error("training time per epoch (ms)"),
    "inference_time_ms": error("inference time (ms)"),
    "runtime_ms": error("time (ms)"),
    "gpu_memory_gb": error("GPU memory (GB)"),
    "speedup_over_flashattention_ratio": Scale("speed-up over FlashAttention", True, bounded=False),
    "accuracy_gain_percent_points": Scale("gain in accuracy (points)", True, factor=100.0),
}
"""All metrics of the published tables."""

OUR_DATASETS = {
    ("SGFormer", "Chameleon"): "Chameleon_filtered",
    ("SGFormer", "Squirrel"): "Squirrel_filtered",
    ("SGFormer", "amazon2m"): "ogbn-products",
    ("GECO", "PCQM4Mv2"): "PCQM4Mv2-full",
}
"""Paper and data set as printed -> name on our card, where the two differ in more than case."""
