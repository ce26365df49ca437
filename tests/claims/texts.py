"""Wordings that several claims share."""

REVIEW = "the review (a summary of Xiong et al., On Layer Normalization in the Transformer Architecture, ICML 2020)"
ARTICLE = "the article (a measuring tutorial on residual connections and normalisation, torch 2.8, one RTX 5080)"
XIONG = "Xiong et al., On Layer Normalization in the Transformer Architecture, ICML 2020"

LIU = "Liu et al., Understanding the Difficulty of Training Transformers, EMNLP 2020 (Admin)"
WANG = "Wang et al., DeepNet: Scaling Transformers to 1,000 Layers, arXiv 2203.00555 (2022)"

FLOAT32 = "float32 (rounding is below 1e-5 of every reading)"
ISOTROPIC = (
    "weights independent N(0, 1/fan_in), fresh in every layer, at initialisation",
    "inputs independent N(0, 1), independent N(0, 1) gradient at every coordinate of the output",
)
ROUNDED = (*ISOTROPIC, "where there is attention: d = 128, n = 16, 4 heads, bidirectional, float32 (rounding is below 1e-5)")
TEXT = (
    "weights independent N(0, 1/fan_in), fresh in every layer, at initialisation",
    "bytes of CPython's documentation (pydoc_data.topics), N(0, 1) embedding without positions, next-byte cross-entropy, "
    "gradient through the unembedding, every block and the embedding",
    FLOAT32,
)
SECOND_HAND = "as second-hand accounts give it"
UNPUBLISHED = "the source does not publish its configuration in full"
