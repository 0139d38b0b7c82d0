"""All pairs of pieces through Inpaint-GAN's networks, without doing n times what can be done once.

Most columns of a pair image, and of the layers above it, are decided by one of its two pieces.
They are computed once per piece; per pair, only the columns in the middle are. The pair image is
turned so that its columns are rows here: few long rows are faster to convolve than many short ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .inpaint_gan import REACH, InpaintGan, strip_width
from .pixels import to_squares


def score_pairs(net: InpaintGan, pieces: np.ndarray, missing: int | None) -> np.ndarray:
    """Logits ``(2, n, n)`` of pieces ``(n, h, w, 3) uint8`` with ``missing`` px between them."""
    x = torch.from_numpy(np.ascontiguousarray(pieces)).permute(0, 3, 1, 2).float() / 255.0
    strip = strip_width(missing, int(pieces.shape[2]))
    net = net.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return all_pairs(net, to_squares(x), strip).numpy()


@torch.no_grad()
def all_pairs(net: InpaintGan, squares: Tensor, strip: int, chunk: int = 128) -> Tensor:
    """Logits ``(2, n, n)``: j right of i, j below i. Squares: ``(n, 3, 64, 64)`` in 0..1.

    The discriminator's statistics are this puzzle's from then on.
    """
    n = len(squares)
    net.adapt(squares, strip)
    out = torch.empty(2, n * n, device=squares.device)
    for d in (0, 1):
        ask = pair_logits(net, *net.ends(squares, strip, bool(d)), bool(d))
        for at in range(0, n * n, chunk):
            k = torch.arange(at, min(at + chunk, n * n), device=squares.device)
            out[d, k] = ask(k // n, k % n).float()
    return out.view(2, n, n)


@dataclass(frozen=True)
class _Conv:
    """A convolution, the normalisation after it folded in, turned; padded by 1."""

    weight: Tensor
    bias: Tensor | None
    stride: int
    slope: float | None
    """Of the leaky ReLU; None = there is none."""

    @property
    def size(self) -> int:
        return self.weight.shape[2]

    def __call__(self, x: Tensor, top: int = 0, bottom: int = 0) -> Tensor:
        """Rows are padded by ``top`` and ``bottom``."""
        if top or bottom:
            x = F.pad(x, (0, 0, top, bottom))
        pad = (0, (self.size - 1) // 2)
        out = F.conv2d(x, self.weight, self.bias, self.stride, pad)
        return out if self.slope is None else F.leaky_relu_(out, self.slope)


def _conv(*layers: nn.Module, shuffled: bool = False) -> _Conv:
    """From a convolution and what follows it; ``shuffled``: a pixel shuffle comes next."""
    first, *rest = layers
    assert isinstance(first, nn.Conv2d)
    weight, bias, slope = first.weight.transpose(2, 3), first.bias, None
    for layer in rest:
        if isinstance(layer, nn.BatchNorm2d):
            assert bias is None and layer.running_mean is not None  # noqa: PT018
            assert layer.running_var is not None
            scale = layer.weight * (layer.running_var + layer.eps).rsqrt()
            weight = weight * scale[:, None, None, None]
            bias = layer.bias - layer.running_mean * scale
        elif isinstance(layer, nn.LeakyReLU):
            slope = layer.negative_slope
    if shuffled:  # the four channels of a square, turned
        assert bias is not None
        weight = weight.unflatten(0, (-1, 4))[:, [0, 2, 1, 3]].flatten(0, 1)
        bias = bias.unflatten(0, (-1, 4))[:, [0, 2, 1, 3]].flatten()
    weight = weight.contiguous(memory_format=torch.channels_last)
    return _Conv(weight, bias, first.stride[0], slope)


@dataclass(frozen=True)
class _Halves:
    """A layer of ``width`` rows: those that the left piece decides and those that the right one
    does, ``(n, ch, ·, 64)``; where these overlap both say the same."""

    left: Tensor
    right: Tensor
    width: int

    @property
    def between(self) -> tuple[int, int]:
        """The rows that take both."""
        low = self.left.shape[2]
        return low, max(low, self.width - self.right.shape[2])

    def rows(self, low: int, high: int, middle: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Rows ``low … high − 1`` of the pairs i, j; ``middle`` are those that take both."""
        a, b = self.between
        begin = self.width - self.right.shape[2]
        parts = [
            self.left[:, :, low : min(high, a)][i],
            middle[:, :, max(low, a) - a : max(0, min(high, b) - a)],
            self.right[:, :, max(low, b) - begin : max(0, high - begin)][j],
        ]
        return torch.cat([p for p in parts if p.shape[2]], 2)

    def through(self, conv: _Conv) -> _Halves:
        """The same of the next layer."""
        k, s = conv.size, conv.stride
        width = (self.width + 2 - k) // s + 1
        # row o is made of the rows s·o − 1 … s·o + k − 2
        left = max(0, (self.left.shape[2] + 1 - k) // s + 1)
        right = width - -(-(self.width - self.right.shape[2] + 1) // s)
        begin = self.right.shape[2] - (self.width - (s * (width - right) - 1))
        bottom = s * (width - 1) - 1 + k - self.width
        return _Halves(
            _some(conv, self.left[:, :, : max(0, s * (left - 1) - 1 + k)], left, 1, 0),
            _some(conv, self.right[:, :, max(0, begin) :], right, 0, bottom),
            width,
        )

    def step(self, conv: _Conv, after: _Halves, middle: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """The rows ``after.between`` of the next layer, of the pairs i, j."""
        a, b = after.between
        low, high = conv.stride * a - 1, conv.stride * (b - 1) - 1 + conv.size
        if a == b:
            return _some(conv, middle, 0, 0, 0)
        inside = max(low, 0), min(high, self.width)
        return conv(self.rows(*inside, middle, i, j), inside[0] - low, high - inside[1])


def _some(conv: _Conv, x: Tensor, count: int, top: int, bottom: int) -> Tensor:
    """``count`` rows, perhaps none."""
    if count:
        return conv(x, top, bottom)
    size = (x.shape[3] + 2 * ((conv.size - 1) // 2) - conv.size) // conv.stride + 1
    return x.new_empty(len(x), len(conv.weight), 0, size)


def pair_logits(
    net: InpaintGan, last: Tensor, first: Tensor, vertical: bool
) -> Callable[[Tensor, Tensor], Tensor]:
    """What ``net(last[i], first[j], vertical)`` says, as a function of i and j ``(B,)``.

    ``last`` and ``first`` ``(n, 3, 64, c)`` are from `InpaintGan.ends`.
    """
    paint = _painter(net, last, first, vertical)
    layers: Sequence[nn.Module] = list(net.discriminator.layers)
    convs = [_conv(*layers[:2]), *(_conv(*layer) for layer in layers[2:])]  # type: ignore[misc]
    maps = [_Halves(_input(last, 0.0, vertical), _input(first, 0.0, vertical), net.cfg.columns)]
    for conv in convs[:-1]:
        maps.append(maps[-1].through(conv))

    def ask(i: Tensor, j: Tensor) -> Tensor:
        x = _input(paint(i, j), 1.0, vertical)
        for conv, before, after in zip(convs, maps, maps[1:], strict=False):
            x = before.step(conv, after, x, i, j)
        x = convs[-1](maps[-1].rows(0, maps[-1].width, x, i, j), 1, 1)
        out: Tensor = net.discriminator.head(x.transpose(2, 3).flatten(1))
        return out[:, 0]

    return ask


def _painter(
    net: InpaintGan, last: Tensor, first: Tensor, vertical: bool
) -> Callable[[Tensor, Tensor], Tensor]:
    """The generator's strips ``(B, 3, 64, strip)`` between pieces i and j."""
    g, width = net.generator, net.cfg.columns
    strip = width - 2 * last.shape[3]
    if not strip:
        return lambda i, j: last.new_empty(len(i), 3, last.shape[2], 0)
    one, two, three = _conv(*g.first), _conv(*g.down), _conv(*g.middle)
    up, fuse, out = _conv(g.up, shuffled=True), _conv(*g.fuse), _conv(g.out, shuffled=True)
    # what is missing is the same for all pairs: either piece knows of it
    hole = _input(last.new_full((*last.shape[:3], strip), 0.5), 1.0, vertical)
    start = _Halves(
        torch.cat([_input(last, 0.0, vertical), hole], 2),
        torch.cat([hole, _input(first, 0.0, vertical)], 2),
        width,
    )
    skip = start.through(one)
    deep = skip.through(two)

    def middle(rows: int, count: int) -> tuple[int, int]:
        return (rows - count) // 2, (rows + count) // 2

    def paint(i: Tensor, j: Tensor) -> Tensor:
        x = start.step(one, skip, hole[i][:, :, :0], i, j)
        y = skip.step(two, deep, x, i, j)
        low, high = middle(deep.width, REACH // 4)
        y = three(deep.rows(low - 1, high + 1, y, i, j))
        y = F.pixel_shuffle(up(y), 2)
        x = skip.rows(*middle(skip.width, REACH // 2), x, i, j)
        y = out(fuse(torch.cat([y, x], 1), 1, 1), 1, 1)
        y = F.pixel_shuffle(y, 2).sigmoid()
        low, high = middle(REACH, strip)
        return y[:, :, low:high].transpose(2, 3).to(last.dtype)

    return paint


def _input(colours: Tensor, mask: float, vertical: bool) -> Tensor:
    """Part of a pair image ``(·, 3, 64, w)`` as the networks see it, turned: ``(·, 5, w, 64)``."""
    about = colours.new_full((len(colours), 2, *colours.shape[2:]), mask)
    about[:, 1] = float(vertical)
    x = torch.cat([colours - 0.5, about], 1).transpose(2, 3)
    return x.contiguous(memory_format=torch.channels_last)
