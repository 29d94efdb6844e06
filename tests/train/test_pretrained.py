"""Starting from a finished run: the right file, the right parameters, and what stays fixed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import graphbench
from graphbench.contract import PredictionHead
from graphbench.errors import UserError
from graphbench.predict.export import export
from graphbench.train.checkpointer import FORMAT
from graphbench.train.pretrained import find_run, freeze_body, frozen_norms, load_parameters, read_best
from tests.own_graphs import write_rings
from tests.train.tiny_run import CLASSES, TinyModel, tiny_settings, tiny_trainer


class LinearHead(nn.Linear, PredictionHead):
    """A head of one map."""


class Headed(nn.Module):
    """An embedding, a norm and a head, under the names that models have here."""

    def __init__(self, categories: int = 4, out: int = 2, extra: bool = False) -> None:
        super().__init__()
        self.encoder = nn.Embedding(categories, 3)
        self.norm = nn.BatchNorm1d(3)
        self.head = LinearHead(3, out)
        if extra:
            self.more = nn.Linear(3, 3)


def _run(folder: Path, *files: str) -> Path:
    (folder / "ckpt").mkdir(parents=True)
    for name in files:
        (folder / "ckpt" / name).write_bytes(b"")
    return folder


# ---- which file ------------------------------------------------------------------------------------------------------


def test_a_run_directory_or_the_run_of_that_number_below(tmp_path: Path) -> None:
    first, second = (_run(tmp_path / "config" / name, "best.ckpt") for name in ("0", "7"))
    assert find_run(second, 0) == second
    assert find_run(tmp_path / "config", 7) == second
    assert find_run(str(tmp_path / "config"), 0) == first
    only = _run(tmp_path / "one" / "3", "best.ckpt")
    assert find_run(tmp_path / "one", 0) == only
    _run(tmp_path / "one" / "3.old-20261123-100000", "best.ckpt")
    assert find_run(tmp_path / "one", 0) == only, "not what was set aside"


def test_what_is_no_finished_run_is_named(tmp_path: Path) -> None:
    for name in ("0", "7"):
        _run(tmp_path / "config" / name, "best.ckpt")
    with pytest.raises(UserError, match="it holds the runs 0, 7: name one of them"):
        find_run(tmp_path / "config", 1)
    with pytest.raises(UserError, match="nowhere is no run directory, and it holds no run"):
        find_run(tmp_path / "nowhere", 0)
    with pytest.raises(UserError, match=r"has no best\.ckpt: it was removed, the run has not evaluated an epoch yet"):
        find_run(_run(tmp_path / "young", "last.ckpt"), 0)
    with pytest.raises(UserError, match=r"99\.ckpt was written by GraphGPS .* other names"):
        find_run(_run(tmp_path / "theirs" / "0", "99.ckpt"), 0)


def test_a_checkpoint_is_read_as_the_loop_writes_it(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, tiny_settings(max_epoch=3))
    outcome = trainer.run()
    best = read_best(find_run(tmp_path / "tiny", 0))
    assert best["epoch"] == outcome.best_epoch
    assert set(best["model"]) == set(trainer.model.state_dict())


def test_weights_of_another_epoch_than_the_record_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left where an interrupted run goes on with ``train.enable_ckpt false`` and finds a better epoch."""
    monkeypatch.chdir(tmp_path)
    write_rings(tmp_path)
    run = graphbench.run(graphbench.load_config("rings.yaml"))["run_dir"]
    file = Path(run, "ckpt/best.ckpt")
    content = torch.load(file)
    best = content["epoch"]
    torch.save({**content, "epoch": best + 1}, file)
    told = rf"best\.ckpt is of epoch {best + 1}, and the best one of the run is {best}, which was trained with"
    for opened in (lambda: graphbench.load_run(run), lambda: export(run, "out")):
        with pytest.raises(UserError, match=told):
            opened()


def test_damaged_and_foreign_checkpoints(tmp_path: Path) -> None:
    run = _run(tmp_path / "0", "best.ckpt")
    with pytest.raises(UserError, match="is damaged or no checkpoint"):
        read_best(run)
    torch.save({"format": FORMAT + 1, "model": {}}, run / "ckpt" / "best.ckpt")
    with pytest.raises(UserError, match=f"has format {FORMAT + 1}, this version reads format {FORMAT}"):
        read_best(run)


# ---- which parameters ------------------------------------------------------------------------------------------------


def test_a_reset_head_keeps_its_new_numbers_and_the_body_takes_the_stored_ones() -> None:
    stored, model = Headed(), Headed()
    stored.norm.running_mean.fill_(3.0)
    fresh = model.head.weight.detach().clone()
    load_parameters(model, stored.state_dict(), reset_head=True)
    assert torch.equal(model.encoder.weight, stored.encoder.weight)
    assert torch.equal(model.norm.running_mean, stored.norm.running_mean)
    assert torch.equal(model.head.weight, fresh)
    assert not torch.equal(model.head.weight, stored.head.weight)
    load_parameters(model, stored.state_dict(), reset_head=False)
    assert torch.equal(model.head.weight, stored.head.weight)


def test_a_head_of_another_shape_needs_a_reset() -> None:
    model = Headed(out=5)
    before = model.encoder.weight.detach().clone()
    with pytest.raises(UserError, match=r"head.weight: \(5, 3\) here, \(2, 3\) there.*reset_prediction_head True"):
        load_parameters(model, Headed().state_dict(), reset_head=False)
    assert torch.equal(model.encoder.weight, before), "nothing is copied where something does not fit"
    load_parameters(model, Headed().state_dict(), reset_head=True)


def test_vocabularies_that_grew_keep_their_common_rows() -> None:
    old, new = Headed(categories=4), Headed(categories=5)
    fresh = new.encoder.weight[4].detach().clone()
    grown = load_parameters(new, old.state_dict(), reset_head=True)
    assert torch.equal(new.encoder.weight[:4], old.encoder.weight)
    assert torch.equal(new.encoder.weight[4], fresh)
    assert "encoder.weight has 5 rows here and 4 there; rows 4 to 4 start as initialised" in grown[1]
    cut = load_parameters(old, new.state_dict(), reset_head=True)
    assert torch.equal(old.encoder.weight, new.encoder.weight[:4])
    assert "has 4 rows here and 5 there; the rest is not used" in cut[1]


def test_a_body_of_another_width_is_refused() -> None:
    model = Headed()
    model.norm = nn.BatchNorm1d(4)
    with pytest.raises(UserError, match=r"norm.bias: \(4,\) here, \(3,\) there"):
        load_parameters(model, Headed().state_dict(), reset_head=True)


def test_parameters_of_one_model_only_are_listed() -> None:
    copied, new = load_parameters(Headed(extra=True), Headed().state_dict(), reset_head=True)
    assert copied == "pretrained: 6 parameters and buffers copied"
    assert new == "pretrained: 2 parameters start as initialised: more.bias, more.weight"
    _, unused = load_parameters(Headed(), Headed(extra=True).state_dict(), reset_head=True)
    assert unused == "pretrained: 2 parameters are not used: more.bias, more.weight"


def test_models_that_share_nothing_are_refused() -> None:
    with pytest.raises(UserError, match="share no parameter outside the head"):
        load_parameters(Headed(), nn.Linear(2, 2).state_dict(), reset_head=True)
    with pytest.raises(UserError, match="share no parameter outside the head"):
        load_parameters(Headed(), {"head.weight": torch.zeros(2, 3)}, reset_head=False)


# ---- what stays fixed ------------------------------------------------------------------------------------------------


class HeadedTiny(TinyModel):
    """The tiny model with a head as its last map."""

    def __init__(self) -> None:
        super().__init__()
        self.head = LinearHead(8, CLASSES)
        del self.last

    @property
    def last(self) -> nn.Module:
        return self.head


def test_a_frozen_body_stays_to_the_last_bit_and_the_head_learns(tmp_path: Path) -> None:
    model = HeadedTiny()
    freeze_body(model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimized = nn.ParameterList([parameter for parameter in model.parameters() if parameter.requires_grad])
    assert len(optimized) == 2
    trainer = tiny_trainer(tmp_path, tiny_settings(max_epoch=3), model=model)
    outcome = trainer.run()
    assert outcome.params == 8 * CLASSES + CLASSES
    for name, value in trainer.model.state_dict().items():
        same = torch.equal(value, before[name])
        assert same is not name.startswith("head."), f"{name}: statistics of BatchNorm must not drift either"


def test_norms_are_frozen_with_their_parameters_only() -> None:
    model = Headed()
    assert frozen_norms(model) == []
    freeze_body(model)
    assert frozen_norms(model) == [model.norm]
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert trained == ["head.weight", "head.bias"]


def test_a_head_is_told_by_its_type_and_a_model_without_one_is_refused() -> None:
    stored, model = Headed(), Headed()
    for each in (stored, model):
        each.classifier, each.head = each.head, nn.Linear(3, 3)
    fresh = model.classifier.weight.detach().clone()
    load_parameters(model, stored.state_dict(), reset_head=True)
    assert torch.equal(model.classifier.weight, fresh)
    assert torch.equal(model.head.weight, stored.head.weight)
    freeze_body(model)
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert trained == ["classifier.weight", "classifier.bias"]
    del model.classifier
    with pytest.raises(UserError, match=r"reset_prediction_head: Headed has no prediction head.*frame\.head\(dim\)"):
        load_parameters(model, stored.state_dict(), reset_head=True)
    with pytest.raises(UserError, match=r"freeze_main: Headed has no prediction head"):
        freeze_body(model)


def test_named_parameters_alone_are_copied() -> None:
    trained, fresh = Headed(), Headed()
    before = {name: value.clone() for name, value in fresh.state_dict().items()}
    load_parameters(fresh, trained.state_dict(), reset_head=False, only=["enc*.weight"])
    for name, value in fresh.state_dict().items():
        source = trained.state_dict() if name == "encoder.weight" else before
        assert torch.equal(value, source[name]), name
    with pytest.raises(UserError, match=r"pretrained.parameters: no parameter .* is called 'q\.\*'"):
        load_parameters(fresh, trained.state_dict(), reset_head=False, only=["q.*"])
