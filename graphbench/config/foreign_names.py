"""Names that PyTorch, Lightning, PyG and Hugging Face have for what keys of ours say."""

from __future__ import annotations

from collections.abc import Mapping

_EPOCHS = ("optim.max_epoch",)
_RATE = ("optim.base_lr",)
_WIDTH = ("gnn.dim_inner", "gt.dim_hidden")
_HEADS = ("gt.n_heads",)
_PATIENCE = ("train.early_stop_patience", "optim.schedule_patience")
_WARM_UP = ("optim.num_warmup_epochs",)
_ACCUMULATION = ("optim.batch_accumulation",)
_LARGEST_NORM = ("optim.clip_grad_norm_value",)

FOREIGN_NAMES: Mapping[str, tuple[str, ...]] = {
    "lr": _RATE,
    "learning_rate": _RATE,
    "epochs": _EPOCHS,
    "max_epochs": _EPOCHS,
    "num_epochs": _EPOCHS,
    "num_train_epochs": _EPOCHS,
    "per_device_train_batch_size": ("train.batch_size",),
    "num_layers": ("gt.layers", "gnn.layers_mp"),
    "n_layers": ("gt.layers", "gnn.layers_mp"),
    "hidden_dim": _WIDTH,
    "hidden_channels": _WIDTH,
    "hidden_size": _WIDTH,
    "num_heads": _HEADS,
    "num_attention_heads": _HEADS,
    "patience": _PATIENCE,
    "early_stopping_patience": _PATIENCE,
    "early_stop_by_perf": _PATIENCE,
    "warmup_epochs": _WARM_UP,
    "accumulate_grad_batches": _ACCUMULATION,
    "gradient_accumulation_steps": _ACCUMULATION,
    "gradient_clip_val": _LARGEST_NORM,
    "max_grad_norm": _LARGEST_NORM,
    "lr_scheduler": ("optim.scheduler",),
    "check_val_every_n_epoch": ("train.eval_period",),
    "loss": ("model.loss_fun",),
    "class_weight": ("model.loss_fun",),
    "class_weights": ("model.loss_fun",),
    "pos_weight": ("model.loss_fun",),
    "label_smoothing": ("model.loss_fun",),
    "pooling": ("model.graph_pooling",),
    "device": ("accelerator",),
    "output_dir": ("out_dir",),
}
"""Last part of a name -> our keys; the first unless the section that it was written in has another."""


def our_key(name: str) -> str | None:
    """The key of ours that a dotted name stands for; None where nobody else calls a key so."""
    section, _, last = name.rpartition(".")
    keys = FOREIGN_NAMES.get(last, ())
    return next((key for key in keys if key.rpartition(".")[0] == section), keys[0] if keys else None)
