"""An encoder and a decoder that reads it by cross-attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from empirical.blocks import Pass, forward
from empirical.training.models.base import Batch, Outcome, cross_entropy, embedded, logits
from empirical.training.parameters import Learned, Reading, Store
from theory.configuration import Configuration
from theory.errors import InvalidInput

Tensor = torch.Tensor


@dataclass(frozen=True)
class Translator:
    """Both stacks have the configuration's variant and depth; in the decoder a cross-attention follows every attention.

    A cross-attention is a sublayer of its own, with the variant's update: its queries come from the decoder's stream as any
    sublayer's input does, its keys and values from the encoder's output. Constants that depend on the number of sublayers
    of a block (DeepNorm's depend on the depth alone) see one more in the decoder.

    Args:
        configuration: of the encoder; ``tokens`` is the length of the longest sentence that is read.
        vocabulary: ids of source and target together.
        pad, begin, end: special ids.

    Raises:
        InvalidInput: no attention among the sublayers.
    """

    configuration: Configuration
    vocabulary: int
    pad: int
    begin: int
    end: int

    def __post_init__(self) -> None:
        if "attention" not in self.configuration.sublayers:
            raise InvalidInput("a translation needs attention in its blocks: use --sublayers attention,gelu")

    @property
    def stacks(self) -> Mapping[str, Configuration]:
        own = self.configuration.sublayers
        doubled = tuple(name for sublayer in own for name in [sublayer] * (2 if sublayer == "attention" else 1))
        return {
            "encoder": replace(self.configuration, causal=False),
            "decoder": replace(self.configuration, causal=True, sublayers=doubled),
        }

    def __call__(self, store: Store, batch: Batch) -> Outcome:
        """Of sources (members, batch, source tokens) and targets (members, batch, target tokens).

        Every token of a target but the first is predicted from those before it; the loss is the mean over a member's tokens.
        """
        sources, targets = batch
        encoder = self._encode(store, sources)
        decoder = self._decode(store, encoder.output, sources, targets[..., :-1])
        scores = logits(store, decoder.output, self.vocabulary)
        return Outcome(cross_entropy(scores, targets[..., 1:], self.pad), {"encoder": encoder, "decoder": decoder})

    @torch.no_grad()
    def greedy(self, store: Store, sources: Tensor) -> Tensor:
        """Most probable next tokens one by one, (members, batch, up to ``tokens``), `pad` behind the end."""
        memory = self._encode(store, sources).output
        written = sources.new_full((*sources.shape[:2], 1), self.begin)
        ended = torch.zeros_like(written, dtype=torch.bool)
        for _ in range(self.configuration.tokens - 1):
            output = self._decode(store, memory, sources, written).output[:, :, -1:]
            chosen = logits(store, output, self.vocabulary).argmax(dim=-1).masked_fill(ended, self.pad)
            written = torch.cat([written, chosen], dim=-1)
            ended = ended | (chosen == self.end)
            if ended.all():
                break
        return written

    def _encode(self, store: Store, sources: Tensor) -> Pass:
        stack, padding = self.stacks["encoder"], sources == self.pad
        hidden = {index: padding for index, name in enumerate(stack.sublayers) if name == "attention"}
        learned = Learned(store, "encoder", stack, Reading(hidden=hidden))
        return forward(stack, self._embedded(store, sources, "source"), learned, learned)

    def _decode(self, store: Store, memory: Tensor, sources: Tensor, targets: Tensor) -> Pass:
        stack, padding = self.stacks["decoder"], sources == self.pad
        attentions = [index for index, name in enumerate(stack.sublayers) if name == "attention"]
        across = attentions[1::2]
        learned = Learned(store, "decoder", stack, Reading(dict.fromkeys(across, memory), dict.fromkeys(across, padding)))
        return forward(stack, self._embedded(store, targets, "target"), learned, learned)

    def _embedded(self, store: Store, ids: Tensor, side: str) -> Tensor:
        return embedded(store, ids, self.vocabulary, self.configuration.width, self.configuration.tokens, side)
