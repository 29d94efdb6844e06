"""Several processes: what is refused or told before training, and files that are those of one process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphbench.commands.train import main
from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.preflight import check
from tests.test_main import call
from tests.test_modes import CONTACTS


@pytest.fixture
def contacts(tmp_path: Path) -> Path:
    path = tmp_path / "contacts.yaml"
    path.write_text(CONTACTS)
    return path


def test_ranks_among_following_rows_need_one_process(contacts: Path, tmp_path: Path) -> None:
    metric = ["custom_metrics", "[mrr_candidates]", "out_dir", str(tmp_path)]
    check(load_config(contacts, metric))
    with pytest.raises(UserError, match=r"command line: devices is 2, but mrr_candidates ranks.*Set devices to 1"):
        check(load_config(contacts, [*metric, "devices", "2"]))


def test_the_log_tells_of_statistics_that_a_process_takes_of_its_own_part(contacts: Path, tmp_path: Path) -> None:
    out = ["out_dir", str(tmp_path)]
    assert not check(load_config(contacts, out)).config.notices
    (notice,) = check(load_config(contacts, [*out, "devices", "2"])).config.notices
    assert notice.startswith("command line: BatchNorm takes mean and variance of each process's part of a batch")
    alone = [*out, "devices", "2", "gt.batch_norm", "false", "gt.layer_norm", "true"]
    assert not check(load_config(contacts, alone)).config.notices


@pytest.mark.slow
def test_two_processes_write_the_files_of_one(contacts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    modes = {"inference-only": "predictions", "log-attn-weights": "attention"}
    # Negative pairs are drawn batch by batch, and batches are other ones.
    common = ["dataset.resample_negative", "false", "train.batch_size", "3", "num_threads", "1", "print", "file"]
    assert main(["--cfg", "contacts.yaml", *common, "optim.max_epoch", "1"]) == 0
    for mode in modes:
        text = f"_base_: contacts.yaml\npretrained: {{dir: results/contacts/0}}\ntrain: {{mode: {mode}}}\n"
        Path(f"{mode}.yaml").write_text(text)
    files = [f"{mode}.yaml" for mode in modes]
    assert main(["--cfg", *files, *common]) == 0
    done = call("--cfg", *files, *common, "devices", "2", "name_tag", "two", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for mode, name in modes.items():
        one, two = (np.load(f"results/{mode}{tag}-{mode}/0/{name}.npz") for tag in ("", "-two"))
        assert sorted(one.files) == sorted(two.files)
        for array in one.files:
            np.testing.assert_allclose(one[array], two[array], rtol=1e-4, atol=1e-5, err_msg=f"{name} {array}")
