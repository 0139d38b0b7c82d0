"""The decoder: fragments recovered together with half of the gap around them (sec. MPPN).

With the shared encoder it has the shape of a U: stride 4 (F), stride 2 (the stem's map), pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import SherdError
from .blend import Blend, ResBlock, into_range
from .config import FromDict, NetConfig
from .encoder import Maps, pad_pieces
from .network import MPPN
from .weights import fill, load_part, save_part

KIND = "sherd-decoder"
DEFAULT = Path(__file__).resolve().parents[2] / "weights" / "decoder"
"""Where the shipped decoder lies: ``decoder.safetensors`` and ``decoder.json``."""


@dataclass(frozen=True)
class DecoderConfig(FromDict):
    """Sizes of decoder and blend. The defaults are the shipped ones'."""

    quarter: int = 64
    """Channels at stride 4."""
    half: int = 48
    """Channels at stride 2."""
    full: int = 24
    """Channels at full resolution."""
    blend: tuple[int, int, int, int] = (24, 48, 96, 128)
    """Channels of the blend at strides 1, 2, 4 and 8."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "blend", tuple(self.blend))  # JSON and TOML know lists only
        if len(self.blend) != 4:
            raise SherdError(f"blend: {self.blend}; expected four numbers of channels")
        for name, value in (
            *((n, getattr(self, n)) for n in ("quarter", "half", "full")),
            *(("blend", v) for v in self.blend),
        ):
            if not isinstance(value, int) or value < 1:
                raise SherdError(f"{name}: {value!r}; expected a whole number of at least 1")


class Decoder(nn.Module):
    """What the encoder says of a fragment → its pixels and those around it.

    Maps and pixels are continued outwards by their last cells; what is learned is the difference
    from that.
    """

    def __init__(self, cfg: DecoderConfig, net: NetConfig) -> None:
        super().__init__()
        a, b, c = cfg.quarter, cfg.half, cfg.full
        self.first = nn.Conv2d(net.width + 2, a, 3, padding=1)
        self.gap = nn.Linear(net.gap_dim, a)
        # dilated: 14 cells reach across half of the widest gap, and as far into the fragment
        self.at_quarter = nn.Sequential(*(ResBlock(a, d) for d in (1, 2, 4)))
        self.to_half = nn.Conv2d(a, 4 * b, 1)
        self.at_half = nn.Sequential(nn.Conv2d(b + net.fine, b, 3, padding=1), ResBlock(b))
        self.to_full = nn.Conv2d(b, 4 * c, 1)
        self.at_full = nn.Sequential(nn.Conv2d(c + 4, c, 3, padding=1), ResBlock(c))
        self.last = nn.Conv2d(c, 3, 3, padding=1)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)  # type: ignore[arg-type]

    def forward(self, maps: Maps, padded: Tensor, size: tuple[int, int], gap: Tensor,
                around: int) -> Tensor:  # fmt: skip
        """Recover n fragments.

        Parameters
        ----------
        maps
            Of ``padded``.
        padded
            ``(n, 3, H, W)`` in 0..1, as `pad_pieces` made them.
        size
            ``(h, w)`` of the fragments before padding.
        gap
            ``(n, gap_dim)`` gap embedding.
        around
            Pixels to recover on every side.

        Returns
        -------
        ``(n, 3, h + 2·around, w + 2·around)`` in 0..1.
        """
        cells = -(-around // 4)
        f = _extend(maps.f.permute(0, 3, 1, 2), cells)
        x = _joined(f, _outside(f, cells))
        x = self.first(x) + self.gap(gap)[:, :, None, None]
        x = self.to_half(F.relu(self.at_quarter(x)))
        fine = _extend(maps.fine.permute(0, 3, 1, 2), 2 * cells)
        x = self.at_half(_joined(F.pixel_shuffle(x, 2), fine))
        x = self.to_full(F.relu(x))
        pixels = _extend(padded, 4 * cells)
        known = F.pad(torch.ones_like(padded[:, :1]), [4 * cells] * 4)
        x = _joined(F.pixel_shuffle(x, 2), 2.0 * pixels - 1.0, known)
        out = pixels + self.last(F.relu(self.at_full(x))).to(pixels.dtype)
        (h, w), extra = size, 4 * cells - around
        top, left = (extra + (p - s) // 2 for p, s in zip(padded.shape[2:], size, strict=True))
        return into_range(out[..., top : top + h + 2 * around, left : left + w + 2 * around])


def _joined(first: Tensor, *others: Tensor) -> Tensor:
    """Maps side by side, in the first one's precision, channels last: what convolutions like."""
    x = torch.cat([first, *(o.to(first.dtype) for o in others)], dim=1)
    return x.contiguous(memory_format=torch.channels_last)


def _extend(x: Tensor, cells: int) -> Tensor:
    """``x (n, c, h, w)`` with its outermost cells repeated ``cells`` times."""
    return F.pad(x, [cells] * 4, mode="replicate") if cells else x


def _outside(x: Tensor, cells: int) -> Tensor:
    """``(n, 2, h, w)``: how far a cell of an extended map lies outside, down and across.

    In units of four cells; 0 inside, negative before the fragment and positive after it.
    """
    n, _, h, w = x.shape
    planes = []
    for size in (h, w):
        at = torch.arange(size, device=x.device, dtype=x.dtype)
        planes.append((at - cells).clamp(max=0.0) + (at - (size - 1 - cells)).clamp(min=0.0))
    y, x_ = planes[0][:, None].expand(h, w), planes[1].expand(h, w)
    return torch.stack([y, x_])[None].expand(n, 2, h, w) / 4.0


class Restorer(nn.Module):
    """Decoder and blend, which are trained and shipped together."""

    def __init__(self, cfg: DecoderConfig | None = None, net: NetConfig | None = None) -> None:
        super().__init__()
        self.cfg = cfg or DecoderConfig()
        self.decoder = Decoder(self.cfg, net or NetConfig())
        self.blend = Blend(self.cfg.blend)

    def recover(self, net: MPPN, pieces: Tensor, gap: Tensor, around: int) -> Tensor:
        """Fragments ``(n, 3, h, w)`` in 0..1 with their surroundings; no gradient to ``net``.

        ``gap (n,)`` in pixels. Returns ``(n, 3, h + 2·around, w + 2·around)``.
        """
        with torch.no_grad():
            padded = pad_pieces(pieces).contiguous(memory_format=torch.channels_last)
            g = net.gap(gap)
            maps = net.encoder(padded, g)
        size = (int(pieces.shape[2]), int(pieces.shape[3]))
        out: Tensor = self.decoder(maps, padded, size, g, around)
        return out


@dataclass(frozen=True)
class DecoderModel:
    """A decoder and a blend that are ready to restore."""

    net: Restorer
    card: Mapping[str, Any]
    """What they were trained on, and how well they do."""
    mppn: str
    """sha256 of the MPPN's weights whose encoder they read."""
    sha256: str
    """Of the weights file."""

    def check(self, mppn: str) -> None:
        """Raise unless ``mppn`` (a sha256) is the network that this decoder was trained with."""
        if mppn != self.mppn:
            raise SherdError(
                f"decoder: was trained on the features of MPPN {self.mppn[:12]}…, not of "
                f"{mppn[:12]}…; use the two that belong together or train the decoder again"
            )


def _stem(path: str | Path | None) -> Path:
    path = DEFAULT if path is None else Path(path)
    if path.is_dir():
        return path / "decoder"
    return path.with_suffix("") if path.suffix in (".safetensors", ".json") else path


def save_decoder(
    path: str | Path, net: Restorer, mppn: str, mppn_cfg: NetConfig, card: Mapping[str, Any]
) -> None:
    """Write ``path.safetensors`` (fp16) and ``path.json``."""
    sizes = {name: getattr(mppn_cfg, name) for name in ("width", "fine", "gap_dim")}
    about = {"net": net.cfg.asdict(), "reads": sizes, "mppn": mppn, "card": dict(card)}
    save_part(_stem(path), net, KIND, about)


@cache
def shipped_decoder() -> DecoderModel:
    """The decoder that comes with sherd, read once."""
    return load_decoder()


def load_decoder(path: str | Path | None = None) -> DecoderModel:
    """The decoder at ``path`` (a folder, a stem or either file), or the shipped one.

    Evaluation mode, float32, on the CPU.
    """
    stem = _stem(path)
    about, tensors = load_part(stem, KIND)
    cfg = DecoderConfig.from_dict(about.get("net", {}), f"{stem}.json: net")
    reads = NetConfig.from_dict(about.get("reads", {}), f"{stem}.json: reads")
    net = Restorer(cfg, reads)
    fill(net, tensors, stem)
    return DecoderModel(net, about.get("card", {}), str(about.get("mppn", "")), about["sha256"])
