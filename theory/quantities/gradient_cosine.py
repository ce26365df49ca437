"""How alike the tokens' gradients are."""

from theory.prediction import Quantity, mean_cosine

QUANTITY = Quantity(
    name="gradient-cosine",
    definition="mean cosine between two different tokens' gradients ∂𝓛/∂x_l",
    read=lambda profile: [mean_cosine(moments) for moments in profile.backward],
    tokens=2,
)
