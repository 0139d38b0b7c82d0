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
from .gains import exchange_gain, gains
from .rules import NONE, SWAP_2, SWAP_3, Puzzles, apply, second_mask, third_mask
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
    row: Tensor
    """``(B, 1)``: 0 … B−1."""
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
        t = puzzles.tables
        closed_first, closed_types = t.closed_first[which], t.closed_types[which]
        scale = self.scale.exp()
        with torch.no_grad():
            raw, place = gains(puzzles, boards, which)  # (B, 3, C, C)
        pair = raw * scale[:, 0, None, None]
        if place is not None:
            pair = torch.addcmul(pair, place, scale[:, 1, None, None])
        lead = pair.masked_fill(t.closed[:, :3, :-1, :-1][which], NEVER).logsumexp(3)  # (B, 3, C)
        lead = lead.masked_fill(closed_first, NEVER)
        total = lead.logsumexp(2)  # (B, 3)
        best = lead.detach().masked_fill(closed_first, 0.0).clamp_(-20, 20).div_(10.0)
        reach = total.detach().masked_fill(closed_types, 0.0).clamp_(-20, 20).div_(10.0)

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
        types = types.masked_fill(closed_types, NEVER).log_softmax(1)
        first = (self.first(tokens).transpose(1, 2) + lead).masked_fill(closed_first, NEVER)
        keys = torch.stack([self.key2(tokens), self.key3(tokens)])
        row = torch.arange(len(boards), device=boards.device)[:, None]
        return Plan(
            puzzles, boards, which, row, tokens, types, first.log_softmax(2), pair,
            scale[SWAP_3], keys,
        )  # fmt: skip

    def _second(self, plan: Plan, kind: Tensor, a: Tensor) -> Tensor:
        """``(B, D, C)`` log-probabilities of the second cell, given type and first ``(B, D)``."""
        query = self.query2(torch.cat([self.kind(kind), plan.tokens[plan.row, a]], dim=2))
        logits = (query * query.shape[2] ** -0.5) @ plan.keys[0].transpose(1, 2)
        logits = logits + plan.pair[plan.row, kind, a]
        may = second_mask(plan.puzzles, plan.which[:, None], kind, a)
        return logits.masked_fill(~may, NEVER).log_softmax(2)

    def _third(self, plan: Plan, a: Tensor, b: Tensor) -> Tensor:
        """``(B, D, C)`` log-probabilities of the third cell of a Swap-3."""
        puzzles, count = plan.puzzles, a.shape[1]
        three = self.kind.weight[SWAP_3].expand(*a.shape, -1)
        token = torch.cat([three, plan.tokens[plan.row, a], plan.tokens[plan.row, b]], dim=2)
        query = self.query3(token)
        logits = (query * query.shape[2] ** -0.5) @ plan.keys[1].transpose(1, 2)
        with torch.no_grad():
            # a cycle is the exchange of a and b, then that of a and c
            two = torch.stack([torch.full_like(a, SWAP_2), a, b, torch.full_like(a, NONE)], dim=2)
            between = apply(
                puzzles.layout, plan.boards.repeat_interleave(count, 0), two.flatten(0, 1)
            )
            pair, place = exchange_gain(
                puzzles, between, plan.which.repeat_interleave(count), a.flatten()
            )
        logits = logits + plan.scale[0] * pair.view_as(logits)
        if puzzles.place is not None:
            logits = logits + plan.scale[1] * place.view_as(logits)
        may = third_mask(puzzles, plan.which[:, None], a, b)
        return logits.masked_fill(~may, NEVER).log_softmax(2)

    def sample(self, plan: Plan, count: int, generator: torch.Generator) -> Tensor:
        """``(B, count, 4)`` actions."""
        kind = _draw(plan.types[:, None].expand(-1, count, -1), generator)
        a = _draw(plan.first[plan.row, kind], generator)
        b = _draw(self._second(plan, kind, a), generator)
        three = kind == SWAP_3
        if len(kind) == 1 and kind.device.type == "cpu":  # third cells where they are asked for
            c = torch.full_like(kind, NONE)
            c[three] = _draw(self._third(plan, a[:, three[0]], b[:, three[0]]), generator)[0]
        else:
            c = _draw(self._third(plan, a, b), generator).masked_fill(~three, NONE)
        actions = torch.stack([kind, a, b, c], dim=2)
        # where nothing may be done at all, nothing is done
        stuck = plan.puzzles.tables.closed_types[plan.which].all(1)
        return actions.masked_fill(stuck[:, None, None], NONE)

    def log_prob(self, plan: Plan, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability ``(B,)`` of one legal action ``(B, 4)`` per board, and the entropy
        ``(B,)`` of the choices along its way."""
        kind, a, b, c = actions[:, None].clamp(min=0).unbind(2)  # (B, 1)
        first = plan.first[plan.row, kind]
        second, third = self._second(plan, kind, a), self._third(plan, a, b)
        types = plan.types[:, None]
        log_p = _at(types, kind) + _at(first, a) + _at(second, b)
        entropy = _entropy(types) + _entropy(first) + _entropy(second)
        other = kind != SWAP_3
        log_p = log_p + _at(third, c).masked_fill(other, 0.0)
        entropy = entropy + _entropy(third).masked_fill(other, 0.0)
        return log_p.squeeze(1), entropy.squeeze(1)


def _at(log_p: Tensor, index: Tensor) -> Tensor:
    return log_p.gather(-1, index[..., None]).squeeze(-1)


def _entropy(log_p: Tensor) -> Tensor:
    return -(log_p.exp() * log_p.clamp(min=-100.0)).sum(-1)


def _draw(log_p: Tensor, generator: torch.Generator) -> Tensor:
    """One index per row, the winner of an exponential race (the Gumbel trick): no row may fail."""
    race = torch.empty(log_p.shape, device=log_p.device).exponential_(generator=generator)
    return (log_p.detach() - race.clamp_(min=1e-10).log_()).argmax(-1)
