"""The discriminator: sees the recovered whole and answers, is it assembled rightly? (E_g)

EfficientNet-B3's layout, narrower: 26 MBConv blocks, then three fully connected layers.

Batch normalisation is replaced by group normalisation. In training a batch holds a few puzzles and
many near-copies of each, at test time one puzzle of a kind never seen: statistics of a batch would
tell boards of a batch apart by their company, and running ones would not fit. The normalisation
sits at the narrow input of a block and after its depthwise convolution, where maps are small: twice
a block instead of three times, and never on the wide map before a stride.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import SherdError
from .config import FromDict
from .weights import fill, load_part, save_part

KIND = "sherd-discriminator"
DEFAULT = Path(__file__).resolve().parents[2] / "weights" / "discriminator"
"""Where the shipped one lies: ``discriminator.safetensors`` and ``discriminator.json``."""

BLOCKS = (2, 3, 3, 5, 5, 6, 2)
"""MBConv blocks per stage of EfficientNet-B3."""
KERNELS = (3, 3, 5, 3, 5, 5, 3)
EXPANSIONS = (1, 6, 6, 6, 6, 6, 6)
STRIDES = (1, 2, 2, 2, 1, 2, 1)
MIN_PICTURE = 64
"""Smallest side of a picture in pixels."""
NEUTRAL = 0.5
"""Value of an empty cell: zero once the picture is centred, as the padding around it is."""


@dataclass(frozen=True)
class DiscriminatorConfig(FromDict):
    """Sizes of the discriminator. The defaults are the shipped network's."""

    pitch: int = 48
    """Side of a cell of the picture in pixels, whatever the size of the fragments."""
    stem: int = 24
    """Channels after the first convolution, at stride 2."""
    widths: tuple[int, ...] = (16, 16, 24, 40, 56, 88, 144)
    """Channels per stage; B3 has 24, 32, 48, 96, 136, 232, 384."""
    head: int = 384
    """Channels before pooling."""
    hidden: tuple[int, int] = (192, 64)
    """Widths of the first two fully connected layers."""
    group: int = 8
    """Channels that are normalised together; it divides all widths."""
    drop_path: float = 0.05
    """Share of steps that leave out the last residual block; earlier ones are left out less."""
    dropout: float = 0.1
    """Share of features that are left out before the first fully connected layer."""

    def __post_init__(self) -> None:
        for name in ("widths", "hidden"):  # JSON has lists
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if len(self.widths) != len(BLOCKS) or len(self.hidden) != 2:
            raise SherdError(
                f"widths: {self.widths}, hidden: {self.hidden}; expected 7 and 2 whole numbers"
            )
        sizes = (self.pitch, self.stem, *self.widths, self.head, *self.hidden, self.group)
        if any(not isinstance(s, int) or s < 1 for s in sizes):
            raise SherdError(f"discriminator: {sizes}; sizes are whole numbers of at least 1")
        if any(w % self.group for w in (self.stem, *self.widths, self.head)):
            raise SherdError(f"group: {self.group} must divide {self.stem}, {self.widths}, head")
        for name in ("drop_path", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise SherdError(f"{name}: {getattr(self, name)}; expected at least 0, below 1")


@dataclass(frozen=True)
class BoardCalibration(FromDict):
    """What turns a logit into global evidence: E_g = logit / temperature."""

    temperature: float = 1.0
    """Fitted on validation boards (``sherd.train.judge``)."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
                raise SherdError(f"calibration.{f.name}: {value!r}; expected at least 0")
        if not self.temperature:
            raise SherdError("calibration.temperature: 0; expected more than 0")


class SqueezeExcite(nn.Module):
    """Scales channels by what the whole map says."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(channels, squeezed), nn.Linear(squeezed, channels)

    def forward(self, x: Tensor) -> Tensor:
        scale = self.up(F.silu(self.down(x.mean((2, 3)))))
        return x * scale.sigmoid()[:, :, None, None]


class MBConv(nn.Module):
    """Mobile inverted bottleneck: expand, depthwise convolution, squeeze-excite, project."""

    def __init__(
        self, c_in: int, c_out: int, kernel: int, expansion: int, stride: int, group: int,
        drop: float,
    ) -> None:  # fmt: skip
        super().__init__()
        wide = c_in * expansion
        self.skip, self.drop = stride == 1 and c_in == c_out, drop
        self.norm1 = nn.GroupNorm(c_in // group, c_in)
        self.expand = nn.Conv2d(c_in, wide, 1) if expansion > 1 else nn.Identity()
        self.depthwise = nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False)
        self.norm2 = nn.GroupNorm(wide // group, wide)
        self.excite = SqueezeExcite(wide, max(4, c_in // 4))
        self.project = nn.Conv2d(wide, c_out, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.silu(self.expand(self.norm1(x)))
        y = F.silu(self.norm2(self.depthwise(y)))
        y = self.project(self.excite(y))
        if not self.skip:
            return y
        return x + _dropped(y, (1, 1, 1, 1), self.drop) if self.training else x + y


def _dropped(x: Tensor, shape: tuple[int, ...], share: float) -> Tensor:
    """``x`` times a mask that all boards of a batch share.

    Boards of one puzzle differ by little: masks of their own would drown what is to be learned.
    """
    if not share:
        return x
    keep = torch.rand(shape, device=x.device) >= share
    return x * (keep / (1.0 - share)).to(x.dtype)


class Discriminator(nn.Module):
    """Pictures ``(b, 3, H, W)`` in 0..1, sides of at least 64 px → ``(b,)`` logits.

    A positive logit says that the picture is assembled rightly.
    """

    def __init__(self, cfg: DiscriminatorConfig | None = None) -> None:
        super().__init__()
        self.cfg = cfg = cfg or DiscriminatorConfig()
        self.stem = nn.Conv2d(3, cfg.stem, 3, stride=2, padding=1)
        blocks: list[MBConv] = []
        c = cfg.stem
        total = sum(BLOCKS)
        for stage, width in enumerate(cfg.widths):
            for k in range(BLOCKS[stage]):
                blocks.append(
                    MBConv(
                        c,
                        width,
                        KERNELS[stage],
                        EXPANSIONS[stage],
                        STRIDES[stage] if k == 0 else 1,
                        cfg.group,
                        cfg.drop_path * len(blocks) / (total - 1),
                    )
                )
                c = width
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.GroupNorm(c // cfg.group, c)
        self.head = nn.Conv2d(c, cfg.head, 1)
        # the mean says how the whole looks, the maximum that something somewhere is wrong
        self.fc1 = nn.Linear(2 * cfg.head, cfg.hidden[0])
        self.fc2 = nn.Linear(cfg.hidden[0], cfg.hidden[1])
        self.fc3 = nn.Linear(cfg.hidden[1], 1)
        self._init()

    def _init(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        with torch.no_grad():
            for block in self.blocks:
                assert isinstance(block, MBConv)
                if block.skip:  # the sum of a stage's blocks starts as large as one of them
                    block.project.weight.mul_(0.3)
            self.fc3.weight.mul_(0.1)  # logits start near 0: all boards are alike

    def forward(self, pictures: Tensor) -> Tensor:
        if min(pictures.shape[-2:]) < MIN_PICTURE:
            raise SherdError(
                f"picture: {tuple(pictures.shape[-2:])} px; expected at least {MIN_PICTURE} px"
            )
        x = self.blocks(self.stem((pictures - NEUTRAL) * 4.0))
        x = F.silu(self.head(self.norm(x)))
        x = torch.cat([x.mean((2, 3)), x.amax((2, 3))], dim=1)
        if self.training:
            x = _dropped(x, (1, x.shape[1]), self.cfg.dropout)
        return self.fc3(F.silu(self.fc2(F.silu(self.fc1(x))))).squeeze(-1)


def to_tiles(recovered: Tensor, pitch: int) -> Tensor:
    """Recovered fragments ``(n, 3, h, w)``, half the gap around included → ``(n, 3, S, S)``.

    0..1; a fragment that is no square is stretched, as the whole picture then is.
    """
    if recovered.shape[-2:] == (pitch, pitch):
        return recovered
    return F.interpolate(
        recovered, (pitch, pitch), mode="bilinear", antialias=True, align_corners=False
    )


def compose(tiles: Tensor, boards: Tensor, grid: tuple[int, int]) -> Tensor:
    """Lay tiles out as pictures.

    ``tiles (b, n, 3, S, S)`` of b puzzles and ``boards (b, k, cells)`` of each (piece per cell,
    row by row; -1 = empty, which is neutral) → ``(b·k, 3, M·S, N·S)``.
    """
    (rows, cols), (b, k) = grid, boards.shape[:2]
    c, s = tiles.shape[2], tiles.shape[3]
    empty = torch.full_like(tiles[:, :1], NEUTRAL)  # the last one: index -1
    which = torch.arange(b, device=tiles.device)[:, None, None]
    x = torch.cat([tiles, empty], dim=1)[which, boards]  # (b, k, cells, 3, S, S)
    x = x.reshape(b * k, rows, cols, c, s, s).permute(0, 3, 1, 4, 2, 5)
    return x.reshape(b * k, c, rows * s, cols * s)


@dataclass(frozen=True)
class DiscriminatorModel:
    """A discriminator that is ready to judge."""

    net: Discriminator
    calibration: BoardCalibration
    card: Mapping[str, Any]
    """What it was trained on, and how well it does."""
    decoder: str
    """sha256 of the decoder's weights whose recovered fragments it saw; empty until calibrated."""
    sha256: str
    """Of the weights file."""

    def check(self, decoder: str) -> None:
        """Raise unless ``decoder`` (a sha256) is the one that this discriminator saw."""
        if not self.decoder:
            raise SherdError(
                "discriminator: names no decoder yet; run python -m sherd.train.judge --write"
            )
        if decoder != self.decoder:
            raise SherdError(
                f"discriminator: was trained on what decoder {self.decoder[:12]}… recovers, not "
                f"{decoder[:12]}…; use the two that belong together or train them again"
            )


def _stem(path: str | Path | None) -> Path:
    path = DEFAULT if path is None else Path(path)
    if path.is_dir():
        return path / "discriminator"
    return path.with_suffix("") if path.suffix in (".safetensors", ".json") else path


def save_discriminator(
    path: str | Path,
    net: Discriminator,
    decoder: str,
    calibration: BoardCalibration,
    card: Mapping[str, Any],
) -> None:
    """Write ``path.safetensors`` (fp16) and ``path.json``; ``decoder`` is a sha256."""
    about = {
        "net": net.cfg.asdict(),
        "decoder": decoder,
        "calibration": calibration.asdict(),
        "card": dict(card),
    }
    save_part(_stem(path), net, KIND, about)


def load_discriminator(path: str | Path | None = None) -> DiscriminatorModel:
    """The discriminator at ``path`` (a folder, a stem or either file), or the shipped one.

    Evaluation mode, float32, on the CPU.
    """
    stem = _stem(path)
    about, tensors = load_part(stem, KIND)
    what = f"{stem}.json"
    net = Discriminator(DiscriminatorConfig.from_dict(about.get("net", {}), f"{what}: net"))
    calibration = BoardCalibration.from_dict(about.get("calibration", {}), f"{what}: calibration")
    fill(net, tensors, stem)
    decoder = str(about.get("decoder", ""))
    return DiscriminatorModel(net, calibration, about.get("card", {}), decoder, about["sha256"])
