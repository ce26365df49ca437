"""How alike the tokens of the stream are."""

from theory.prediction import Quantity, mean_cosine

QUANTITY = Quantity(
    name="token-cosine",
    definition="mean cosine between two different tokens of x_l",
    read=lambda profile: [mean_cosine(moments) for moments in profile.forward],
    tokens=2,
)
