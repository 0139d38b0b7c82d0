"""How a TOML file changes a recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from sherd.errors import SherdError
from sherd.train.agent_recipe import AgentRecipe
from sherd.train.data import Entry
from sherd.train.pdn_ga import PdnRecipe
from sherd.train.perception_recipe import Recipe
from sherd.train.recipe import R, read_recipe
from sherd.train.restore_recipe import Recipe as RestoreRecipe

ENTRY = "[[mix]]\nweight = 1\nrows = [3, 4]\ncols = [3, 3]\n"


def read(cls: type[R], folder: Path, text: str) -> R:
    path = folder / "x.toml"
    path.write_text(text)
    return read_recipe(cls, path)


def test_no_file_changes_nothing() -> None:
    assert read_recipe(Recipe, None) == Recipe()


def test_what_a_file_does_not_name_stays(tmp_path: Path) -> None:
    found = read(AgentRecipe, tmp_path, "lr = 1\n[starts]\n[dqn]\nreplay = 7")
    assert (found.lr, type(found.lr)) == (1.0, float)
    assert found.dqn.replay == 7
    assert found.starts == AgentRecipe().starts
    assert found.gamma == AgentRecipe().gamma


def test_lists_become_tuples(tmp_path: Path) -> None:
    found = read(
        RestoreRecipe, tmp_path,
        "[decoder]\nblend = [8, 8, 16, 16]\n[discriminator]\nhidden = [12, 6]",
    )  # fmt: skip
    assert found.decoder.blend == (8, 8, 16, 16)
    assert found.discriminator.hidden == (12, 6)
    assert read(PdnRecipe, tmp_path, "[net]\npair = [1, 2, 3]").net.pair == (1, 2, 3)
    mix = read(Recipe, tmp_path, f"{ENTRY}piece = [24]\ngap = [0, 2]").mix
    assert mix == (Entry(1.0, (3, 4), (3, 3), (24,), (0, 2)),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("budgt = 3", ": unknown key 'budgt'; known are "),
        ("[net]\nwdth = 3", ": net: unknown key 'wdth'; known are "),
        ("lr = 'fast'", ": lr = 'fast'; expected float"),
        ("seed = true", ": seed = True; expected int"),
        ("lr = -1.0", "lr: -1.0; expected more than 0"),
        ("lr = ", ": cannot be read as TOML"),
        ("net = 3", ": net = 3; expected table"),
        ("[[net]]\nwidth = 3", ": net = [{'width': 3}]; expected table"),
        ("mix = 5", ": mix = 5; expected [table, ...]"),
        ("mix = [1]", ": mix[0] = 1; expected table"),
        ("[mix]\nweight = 1", ": mix = {'weight': 1}; expected [table, ...]"),
        ("mix = []", "mix: is empty"),
        ("[[mix]]\nweigth = 1", ": mix[0]: unknown key 'weigth'; known are "),
        ("[[mix]]\nweight = 1", "missing 4 required positional arguments: 'rows'"),
        ("[[mix]]\nweight = 'much'", ": mix[0]: weight = 'much'; expected float"),
        (f"{ENTRY}piece = 24\ngap = [0]", ": mix[0]: piece = 24; expected [int, ...]"),
        (f"{ENTRY}piece = [24.5]\ngap = [0]", ": mix[0]: piece[0] = 24.5; expected int"),
        ("[[mix]]\nrows = [3]", ": mix[0]: rows = [3]; expected [int, int]"),
    ],
)
def test_bad_recipes(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SherdError) as caught:
        read(Recipe, tmp_path, text)
    assert message in str(caught.value)
    if message.startswith(":"):
        assert str(caught.value).startswith(f"{tmp_path / 'x.toml'}{message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[decoder]\nblend = 3", "decoder: blend = 3; expected [int, int, int, int]"),
        ("[decoder]\nblend = [3]", "decoder: blend = [3]; expected [int, int, int, int]"),
        ("[discriminator]\nwidths = ['a']", "discriminator: widths[0] = 'a'; expected int"),
        ("[discriminator]\nwidths = [8]", "expected 7 and 2 whole numbers"),
    ],
)
def test_bad_lists(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SherdError) as caught:
        read(RestoreRecipe, tmp_path, text)
    assert message in str(caught.value)
