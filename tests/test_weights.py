"""Networks on disk."""

from __future__ import annotations

import hashlib
import json

import pytest
import torch
from safetensors.torch import save_file

from sherd.errors import SherdError
from sherd.perception.mppn.config import Calibration
from sherd.perception.mppn.weights import load_model, save_model
from test_mppn import TINY, tiny_net


@pytest.fixture
def stored(tmp_path):
    save_model(tmp_path / "mppn", tiny_net(), Calibration(pair=1.5), {"step": 3})
    return tmp_path


def edit(folder, **changes):
    path = folder / "mppn.json"
    about = json.loads(path.read_text())
    about.update(changes)
    path.write_text(json.dumps(about))


def test_round_trip(stored):
    for path in (stored, stored / "mppn", stored / "mppn.json", stored / "mppn.safetensors"):
        found = load_model(path)
        assert found.calibration.pair == 1.5
        assert found.card["step"] == 3
        assert found.net.cfg == TINY
        assert not found.net.training
        for a, b in zip(found.net.parameters(), tiny_net().parameters(), strict=True):
            assert a.dtype == torch.float32
            assert torch.equal(a, b.half().float())
    assert sorted(p.name for p in stored.iterdir()) == ["mppn.json", "mppn.safetensors"]


def test_missing(tmp_path, stored):
    with pytest.raises(SherdError, match=r"nowhere\.json: is missing"):
        load_model(tmp_path / "nowhere")
    (stored / "mppn.safetensors").unlink()
    with pytest.raises(SherdError, match=r"mppn\.safetensors: is missing"):
        load_model(stored)


def test_damaged(stored):
    path = stored / "mppn.safetensors"
    blob = bytearray(path.read_bytes())
    blob[-5] ^= 1
    path.write_bytes(blob)
    with pytest.raises(SherdError, match="is damaged"):
        load_model(stored)
    path.write_bytes(blob[:100])
    edit(stored, sha256=hashlib.sha256(blob[:100]).hexdigest())
    with pytest.raises(SherdError, match="no safetensors file"):
        load_model(stored)


def test_foreign_and_newer(stored):
    edit(stored, format=99)
    with pytest.raises(SherdError, match=r"format 99, this version reads 2"):
        load_model(stored)
    edit(stored, kind="another")
    with pytest.raises(SherdError, match="no sherd network"):
        load_model(stored)
    (stored / "mppn.json").write_text("{")
    with pytest.raises(SherdError, match="is no JSON"):
        load_model(stored)


def test_weights_of_another_network(stored):
    edit(stored, net={**TINY.asdict(), "edge": 32})
    with pytest.raises(SherdError, match="do not belong together"):
        load_model(stored)
    edit(stored, net={**TINY.asdict(), "colour": 1})
    with pytest.raises(SherdError, match="unknown key 'colour'"):
        load_model(stored)


def test_foreign_tensors(stored):
    path = stored / "mppn.safetensors"
    save_file({"x": torch.zeros(3)}, path)
    edit(stored, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    with pytest.raises(SherdError, match="do not belong together"):
        load_model(stored)


def test_values_beyond_fp16(tmp_path):
    net = tiny_net()
    net.siamese.scale.fill_(1e6)
    with pytest.raises(SherdError, match=r"siamese\.scale"):
        save_model(tmp_path / "mppn", net, Calibration(), {})
    assert not list(tmp_path.iterdir())
