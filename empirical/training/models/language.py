"""A causal decoder that predicts the next token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from empirical.blocks import forward
from empirical.training.models.base import Batch, Outcome, cross_entropy, embedded, logits
from empirical.training.parameters import Learned, Store
from theory.configuration import Configuration


@dataclass(frozen=True)
class LanguageModel:
    """Token and position embedding, the stack, its read-out, unembedding.

    Args:
        configuration: of the stack; its attention is made causal.
        vocabulary: number of different tokens.
    """

    configuration: Configuration
    vocabulary: int

    @property
    def stacks(self) -> Mapping[str, Configuration]:
        return {"decoder": replace(self.configuration, causal=True)}

    def __call__(self, store: Store, batch: Batch) -> Outcome:
        """Of windows (members, batch, tokens + 1): every token but the first is predicted from those before it."""
        (windows,) = batch
        stack = self.stacks["decoder"]
        inputs = embedded(store, windows[..., :-1], self.vocabulary, stack.width, stack.tokens)
        learned = Learned(store, "decoder", stack)
        network = forward(stack, inputs, learned, learned)
        scores = logits(store, network.output, self.vocabulary)
        return Outcome(cross_entropy(scores, windows[..., 1:]), {"decoder": network})
