"""Whole boards as evidence: the networks behind it on disk, and what `Whole` says with them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from sherd import Geometry, cut
from sherd.errors import SherdError
from sherd.perception.mppn.config import Calibration
from sherd.perception.mppn.decoder import DecoderConfig, DecoderModel, Restorer
from sherd.perception.mppn.discriminator import (
    BoardCalibration,
    Discriminator,
    DiscriminatorModel,
    load_discriminator,
    save_discriminator,
)
from sherd.perception.mppn.network import MPPN
from sherd.perception.mppn.weights import Model
from sherd.perception.whole import Whole
from sherd.train.judge import Verdicts, write_verdicts
from test_discriminator import SMALL
from test_mppn import TINY

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def models() -> tuple[Model, DecoderModel, DiscriminatorModel]:
    with torch.random.fork_rng():
        torch.manual_seed(4)
        net = MPPN(TINY).eval()
        decoder = Restorer(DecoderConfig(8, 8, 8, (8, 8, 8, 8)), TINY).eval()
        disc = Discriminator(SMALL).eval()
        with torch.no_grad():
            disc.fc3.weight.mul_(50.0)  # untrained nets hardly tell boards apart
    return (
        Model(net, Calibration(), {}, "a" * 64),
        DecoderModel(decoder, {}, "a" * 64, "b" * 64),
        DiscriminatorModel(disc, BoardCalibration(2.0), {}, "b" * 64, "c" * 64),
    )


def test_weights_come_back(tmp_path, models):
    disc = models[2]
    save_discriminator(tmp_path, disc.net, "b" * 64, disc.calibration, {"step": 3})
    found = load_discriminator(tmp_path)
    assert found.net.cfg == SMALL
    assert found.calibration == disc.calibration
    assert (found.decoder, found.card["step"]) == ("b" * 64, 3)
    assert not found.net.training
    x = torch.rand(1, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(found.net(x), disc.net(x), atol=0.05)

    verdicts = Verdicts(torch.tensor([2.0]), {"swap": torch.tensor([[1.0]])})
    write_verdicts(tmp_path / "discriminator.json", "d" * 64, verdicts)
    again = load_discriminator(tmp_path)
    assert again.decoder == "d" * 64
    assert again.calibration.temperature == pytest.approx(verdicts.temperature(), abs=1e-3)
    assert again.card["boards"]["beats_swap"] == 1.0

    about = json.loads((tmp_path / "discriminator.json").read_text())
    about["calibration"] = {"temperature": 0}
    (tmp_path / "discriminator.json").write_text(json.dumps(about))
    with pytest.raises(SherdError, match="temperature"):
        load_discriminator(tmp_path)


def test_networks_must_belong_together(small, models):
    model, decoder, disc = models
    with pytest.raises(SherdError, match="decoder"):
        Whole(small, replace(model, sha256="f" * 64), decoder, disc)
    with pytest.raises(SherdError, match="discriminator"):
        Whole(small, model, replace(decoder, sha256="f" * 64), disc)
    with pytest.raises(SherdError, match=r"sherd\.train\.judge"):
        Whole(small, model, decoder, replace(disc, decoder=""))


def test_whole_judges_boards_alike_in_any_company(small, models):
    rng = np.random.default_rng(0)
    boards = np.stack([rng.permutation(12).reshape(3, 4) for _ in range(5)])
    boards[4, 0, 0] = -1
    together = Whole(small, *models, threads=1)(boards)
    assert together.shape == (5,)
    assert together.dtype == np.float32
    assert len(np.unique(together)) == 5
    alone = Whole(small, *models, threads=1)
    for k in (3, 0, 4, 1, 2):
        assert alone(boards[k : k + 1])[0] == together[k]
    assert np.array_equal(alone(boards[::-1]), together[::-1])


def test_whole_answers_a_board_once(small, models, monkeypatch):
    whole = Whole(small, *models, threads=1)
    asked: list[np.ndarray] = []
    answer = whole._logit
    monkeypatch.setattr(whole, "_logit", lambda board: (asked.append(board), answer(board))[1])
    boards = np.stack([np.arange(12).reshape(3, 4)] * 3)
    first = whole(boards)
    assert len(asked) == 1
    assert np.array_equal(whole(boards[:2]), first[:2])
    assert len(asked) == 1
    # the same pieces on another grid are another board
    assert whole(boards[:1].reshape(1, 4, 3))[0] != first[0]


def test_whole_forgets_when_it_has_kept_too_much(small, models, monkeypatch):
    monkeypatch.setattr("sherd.perception.whole.CACHED_BOARDS", 3)
    whole = Whole(small, *models, threads=1)
    rng = np.random.default_rng(1)
    boards = np.stack([rng.permutation(12).reshape(3, 4) for _ in range(4)])
    want = [whole(board[None])[0] for board in boards]
    assert len(whole._answers) <= 3
    assert np.array_equal(whole(boards), np.array(want))


def test_whole_follows_the_pieces(small, models):
    """Another order of the pieces is another name for the same boards."""
    order = np.random.default_rng(2).permutation(12)
    board = np.arange(12).reshape(1, 3, 4)
    first = Whole(small, *models, threads=1)
    second = Whole(small.reordered(order), *models, threads=1)
    assert second(board)[0] == pytest.approx(first(order[board])[0], abs=1e-4)


@pytest.mark.parametrize("gap", [None, 0, 3])
def test_whole_takes_single_rows_and_unknown_gaps(photo, models, gap):
    puzzle = replace(cut(photo, Geometry((1, 3), (20, 30), 3)).puzzle, gap=gap)
    whole = Whole(puzzle, *models, threads=1)
    assert whole.tiles.shape == (3, 3, 32, 32)
    assert np.isfinite(whole(np.array([[[0, 1, 2]], [[-1, -1, -1]]]))).all()


def test_large_boards_get_smaller_tiles(small, models, monkeypatch):
    monkeypatch.setattr("sherd.perception.whole.MAX_PIXELS", 12 * 24 * 24)
    whole = Whole(small, *models, threads=1)
    assert whole.tiles.shape[-1] == 24
    assert whole.picture(np.arange(12).reshape(3, 4)).shape == (3, 72, 96)


def test_bad_boards_are_refused(small, models):
    with pytest.raises(SherdError, match=r"\(b, M, N\)"):
        Whole(small, *models, threads=1)(np.zeros((3, 4), dtype=int))
