"""Networks that are trained: one or two stacks, and what leads into and out of them."""

from empirical.training.models.base import Batch, Model, Outcome
from empirical.training.models.language import LanguageModel
from empirical.training.models.regression import Regressor
from empirical.training.models.translation import Translator

__all__ = ["Batch", "LanguageModel", "Model", "Outcome", "Regressor", "Translator"]
