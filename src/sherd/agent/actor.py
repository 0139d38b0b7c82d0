"""The actor: a factorised policy over all swaps, type → cell 1 → cell 2 → cell 3.

Every choice is conditioned on the earlier ones, so the log-probability of an action is exact: the
sum of at most four log-softmaxes. Cells are pointed at, so any grid will do. Each pointer starts as
"what does the evidence gain?", times a learned scale; the network's own opinion is added to it.
An action is an ordered tuple: (a, b) and (b, a) are two names of one exchange.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import AgentConfig
from .gains import block_gain, fits, swap_gain, swap_gain_of
from .layout import Layout
from .rules import (
    NONE,
    SWAP_2,
    SWAP_3,
    Masks,
    Puzzles,
    apply,
    masks,
    second_mask,
    third_mask,
)
from .state import CELL, GLOBAL, observe

NEVER = -1e9
"""Logit of what may not be chosen."""


class Layer(nn.Module):
    """Self-attention over the cells of a board and the global token, and an MLP."""

    def __init__(self, cfg: AgentConfig) -> None:
        super().__init__()
        w = cfg.width
        self.heads = cfg.heads
        self.norm1, self.norm2 = nn.LayerNorm(w), nn.LayerNorm(w)
        self.qkv, self.out = nn.Linear(w, 3 * w), nn.Linear(w, w)
        self.up, self.down = nn.Linear(w, 2 * w), nn.Linear(2 * w, w)

    def forward(self, x: Tensor) -> Tensor:
        b, n, w = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(b, n, 3, self.heads, w // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(seen.transpose(1, 2).reshape(b, n, w))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


@dataclass(frozen=True)
class Plan:
    """What the actor has worked out about B boards; actions are drawn and judged from it."""

    puzzles: Puzzles
    boards: Tensor
    which: Tensor
    masks: Masks
    tokens: Tensor
    """``(B, C, width)``."""
    types: Tensor
    """``(B, 3)`` log-probabilities."""
    first: Tensor
    """``(B, 3, C)`` log-probabilities of the first cell, by type."""
    pair: Tensor
    """``(B, 3, C, C)``: scaled gains, first cell × second cell, by type."""
    scale: Tensor
    """``(2,)``: of pair and of place evidence, for the third cell."""
    keys: Tensor
    """``(2, B, C, width)``: of the second and third pointer."""


class Actor(nn.Module):
    """ω_θ."""

    def __init__(self, cfg: AgentConfig) -> None:
        super().__init__()
        w = cfg.width
        self.cfg = cfg
        self.cell = nn.Linear(CELL + 3, w)
        self.glob = nn.Linear(GLOBAL + 3, w)
        self.pooled = nn.Linear(cfg.pooled, w) if cfg.pooled else None
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.layers))
        self.norm = nn.LayerNorm(w)
        self.which_type = nn.Linear(w, 3)
        self.first = nn.Linear(w, 3)
        self.kind = nn.Embedding(3, w)
        self.query2, self.query3 = nn.Linear(2 * w, w), nn.Linear(3 * w, w)
        self.key2, self.key3 = nn.Linear(w, w), nn.Linear(w, w)
        # log of the scales of pair and place evidence, in 1/nat, by type
        self.scale = nn.Parameter(torch.tensor([[-1.2, 0.0]] * 3))
        self.type_gain = nn.Parameter(torch.zeros(3))
        for head in (self.which_type, self.first, self.query2, self.query3):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)

    def forward(
        self, puzzles: Puzzles, boards: Tensor, which: Tensor, prior: Tensor | None = None
    ) -> Plan:
        """Work out the policy for ``boards (B, C)``.

        ``prior (3,)`` is added to the logits of the types: the annealed preference for large swaps.
        """
        layout, m = puzzles.layout, masks(puzzles)
        scale = self.scale.exp()
        with torch.no_grad():
            raw = _gains(puzzles, boards, which)  # (2, B, 3, C, C): pair, place
        pair = torch.einsum("kbtij,tk->btij", raw, scale)
        allowed = _allowed(m, layout, which)
        lead = pair.masked_fill(~allowed, NEVER).logsumexp(3)  # (B, 3, C)
        lead = lead.masked_fill(~m.first[which], NEVER)
        total = lead.logsumexp(2)  # (B, 3)
        best = torch.where(m.first[which], lead, 0.0).detach().clamp(-20, 20) / 10.0
        reach = torch.where(m.types[which], total, 0.0).detach().clamp(-20, 20) / 10.0

        state = observe(puzzles, boards, which)
        x = self.cell(torch.cat([state.cells, best.transpose(1, 2)], dim=2))
        if self.pooled is not None and puzzles.pooled is not None:
            x = x + self.pooled(puzzles.pooled[which[:, None], boards].to(x.dtype))
        g = self.glob(torch.cat([state.glob, reach], dim=1))
        x = torch.cat([x, g[:, None]], dim=1)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        tokens, g = x[:, :-1], x[:, -1]
        types = self.which_type(g) + self.type_gain * total.clamp(-20, 20)
        if prior is not None:
            types = types + prior
        types = types.masked_fill(~m.types[which], NEVER).log_softmax(1)
        first = (self.first(tokens).transpose(1, 2) + lead).masked_fill(~m.first[which], NEVER)
        keys = torch.stack([self.key2(tokens), self.key3(tokens)])
        return Plan(
            puzzles, boards, which, m, tokens, types, first.log_softmax(2), pair,
            scale[SWAP_3], keys,
        )  # fmt: skip

    def _second(self, plan: Plan, row: Tensor, kind: Tensor, a: Tensor) -> Tensor:
        """``(A, C)`` log-probabilities of the second cell; ``row (A,)`` says of which board."""
        query = self.query2(torch.cat([self.kind(kind), plan.tokens[row, a]], dim=1))
        logits = (plan.keys[0][row] @ query[:, :, None]).squeeze(2) * query.shape[1] ** -0.5
        logits = logits + plan.pair[row, kind, a]
        layout = plan.puzzles.layout
        may = second_mask(plan.masks, layout, plan.which[row], kind, a)
        return logits.masked_fill(~may, NEVER).log_softmax(1)

    def _third(self, plan: Plan, row: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """``(A, C)`` log-probabilities of the third cell of a Swap-3."""
        puzzles, which = plan.puzzles, plan.which[row]
        token = torch.cat([self.kind(torch.full_like(a, SWAP_3)), plan.tokens[row, a],
                           plan.tokens[row, b]], dim=1)  # fmt: skip
        query = self.query3(token)
        logits = (plan.keys[1][row] @ query[:, :, None]).squeeze(2) * query.shape[1] ** -0.5
        with torch.no_grad():
            # a cycle is the exchange of a and b, then that of a and c
            two = torch.stack([torch.full_like(a, SWAP_2), a, b, torch.full_like(a, NONE)], dim=1)
            between = apply(puzzles.layout, plan.boards[row], two)
            gain = swap_gain_of(puzzles, between, which, a)
            place = _place_gain_of(puzzles, between, which, a)
        logits = logits + plan.scale[0] * gain + plan.scale[1] * place
        may = third_mask(plan.masks, puzzles.layout, which, a, b)
        return logits.masked_fill(~may, NEVER).log_softmax(1)

    def sample(self, plan: Plan, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """``(B, count, 4)`` actions and their log-probabilities ``(B, count)``."""
        b = len(plan.boards)
        row = torch.arange(b, device=plan.boards.device).repeat_interleave(count)
        kind = _draw(plan.types[row], generator)
        first = plan.first[row, kind]
        a = _draw(first, generator)
        log_p = _at(plan.types[row], kind) + _at(first, a)
        second = self._second(plan, row, kind, a)
        b2 = _draw(second, generator)
        log_p = log_p + _at(second, b2)
        c = torch.full_like(a, NONE)
        cycle = (kind == SWAP_3).nonzero().squeeze(1)
        if len(cycle):
            third = self._third(plan, row[cycle], a[cycle], b2[cycle])
            c3 = _draw(third, generator)
            c = c.index_copy(0, cycle, c3)
            log_p = log_p.index_add(0, cycle, _at(third, c3))
        actions = torch.stack([kind, a, b2, c], dim=1)
        # where nothing may be done at all, nothing is done
        stuck = ~plan.masks.types[plan.which[row]].any(1)
        actions = actions.masked_fill(stuck[:, None], NONE)
        return actions.unflatten(0, (-1, count)), log_p.unflatten(0, (-1, count))

    def log_prob(self, plan: Plan, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability ``(B,)`` of one legal action ``(B, 4)`` per board, and the entropy
        ``(B,)`` of the choices along its way."""
        row = torch.arange(len(actions), device=actions.device)
        kind, a, b, c = actions.clamp(min=0).unbind(1)
        first = plan.first[row, kind]
        second = self._second(plan, row, kind, a)
        log_p = _at(plan.types, kind) + _at(first, a) + _at(second, b)
        entropy = _entropy(plan.types) + _entropy(first) + _entropy(second)
        cycle = (kind == SWAP_3).nonzero().squeeze(1)
        if len(cycle):
            third = self._third(plan, cycle, a[cycle], b[cycle])
            log_p = log_p.index_add(0, cycle, _at(third, c[cycle]))
            entropy = entropy.index_add(0, cycle, _entropy(third))
        return log_p, entropy


def _at(log_p: Tensor, index: Tensor) -> Tensor:
    return log_p.gather(1, index[:, None]).squeeze(1)


def _entropy(log_p: Tensor) -> Tensor:
    return -(log_p.exp() * log_p.clamp(min=-100.0)).sum(1)


def _draw(log_p: Tensor, generator: torch.Generator) -> Tensor:
    """One index per row, by the Gumbel trick: the same on every device, and no row may fail."""
    noise = torch.rand(log_p.shape, generator=generator, device=log_p.device, dtype=torch.float32)
    gumbel = -(-(noise.clamp(1e-10, 1.0 - 1e-7)).log()).log()
    return (log_p.detach().float() + gumbel).argmax(1)


def _allowed(m: Masks, layout: Layout, which: Tensor) -> Tensor:
    """``(B, 3, C, C)``: second cells for every first one."""
    other = ~torch.eye(layout.cells, dtype=torch.bool, device=which.device)
    free = m.free[which][:, None] & other
    blocks = m.blocks[which][:, None] & layout.apart
    return torch.stack([free, free, blocks], dim=1)


def _gains(puzzles: Puzzles, boards: Tensor, which: Tensor) -> Tensor:
    """``(2, B, 3, C, C)``: gain in pair evidence and in place evidence, by type.

    For a Swap-3, whose third cell is not known yet: what cell b gains by getting a's piece.
    """
    layout = puzzles.layout
    fit = fits(puzzles, boards, which)
    swap = swap_gain(puzzles, boards, which, fit)
    total = fit.sum(1)
    one_way = (total - total.diagonal(dim1=1, dim2=2)[:, :, None]).transpose(1, 2)
    pair = torch.stack([swap, one_way, block_gain(puzzles, boards, which, fit)], dim=1)
    if puzzles.place is None:
        return torch.stack([pair, torch.zeros_like(pair)])
    n = puzzles.place.shape[-1]
    cell = torch.arange(layout.cells, device=boards.device)
    at = puzzles.place.reshape(-1)[
        ((which[:, None] * n + boards) * n)[:, None] + cell[:, None]
    ]  # (B, cell, piece of cell k)
    own = at.diagonal(dim1=1, dim2=2)
    swap = at + at.transpose(1, 2) - own[:, :, None] - own[:, None]
    one_way = (at - own[:, :, None]).transpose(1, 2)
    block = torch.zeros_like(at)
    if len(layout.tops):
        x = at.new_zeros(len(at), len(layout.tops), len(layout.tops))
        for member in range(4):
            cells = layout.blocks[layout.tops, member]
            x = x + at.index_select(1, cells).index_select(2, cells)
        own = x.diagonal(dim1=1, dim2=2)
        block[:, layout.tops[:, None], layout.tops] = (
            x + x.transpose(1, 2) - own[:, :, None] - own[:, None]
        )
    return torch.stack([pair, torch.stack([swap, one_way, block], dim=1)])


def _place_gain_of(puzzles: Puzzles, boards: Tensor, which: Tensor, cell: Tensor) -> Tensor:
    """``(B, C)``: gain in place evidence of exchanging ``cell (B,)`` with every cell."""
    if puzzles.place is None:
        return puzzles.at.new_zeros(boards.shape)
    n = puzzles.place.shape[-1]
    flat = puzzles.place.reshape(-1)
    base = which[:, None] * n
    own = boards.gather(1, cell[:, None])
    there = torch.arange(boards.shape[1], device=boards.device)
    here = cell[:, None]
    return (
        flat[(base + boards) * n + here]
        + flat[(base + own) * n + there]
        - flat[(base + boards) * n + there]
        - flat[(base + own) * n + here]
    )
