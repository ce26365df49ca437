"""How alike the tokens of the stream are."""

from theory.prediction import Quantity, mean_cosine

QUANTITY = Quantity(
    name="token-cosine",
    definition="mean cosine between two different tokens of x_l",
    read=lambda profile: [mean_cosine(cosine) for cosine in profile.cosines()],
    tokens=2,
)
