"""Facts about Transformers that need no Keras, so that other engines start without it."""

from typing import Any

NORM_EPSILON = 1e-6  # Added to the variance in a layer normalisation, by default.


def layer_order(count: int, num_distinct: int, order: str) -> list[int]:
    """Finds out which set of weights each layer of a stack uses (Takase and Kiyono 2021, figure 2).

    At most `count` of `num_distinct` sets are used; `order` is as `share_layers` of `Transformer`.
    Example:
        >>> layer_order(6, 3, "sequence"), layer_order(6, 3, "cycle_reversed")
        ([0, 0, 1, 1, 2, 2], [0, 1, 2, 2, 1, 0])
    """
    num_distinct = count if order == "none" else min(num_distinct, count)
    if order == "sequence":
        return [i * num_distinct // count for i in range(count)]
    cycled = [i % num_distinct for i in range(count)]
    last_round = num_distinct * ((count - 1) // num_distinct)
    if order != "cycle_reversed" or last_round == 0:
        return cycled
    return cycled[:last_round] + [num_distinct - 1 - i for i in cycled[last_round:]]


def _transformer(layers, width, heads, ffn_width, dropout, **settings):
    return {
        "num_encoder_layers": layers,
        "num_decoder_layers": layers,
        "width": width,
        "num_heads": heads,
        "ffn_width": ffn_width,
        "dropout": dropout,
        **settings,
    }


# name: (settings, one line: origin; published score)
TRANSFORMERS = {
    "transformer_coursework": (
        _transformer(2, 128, 2, 512, 0.1, attention_dropout=0.2, tie_embeddings="none"),
        "small Vaswani et al. 2017; published 11.03 lower-cased BLEU on europarl10k",
    ),
    "transformer_tiny": (
        # Pre-norm, because at this size a post-norm model learns to attend much later.
        _transformer(4, 128, 4, 256, 0.3, norm="pre"),
        "Wu et al. 2021, pre-norm; published 41.02 lower-cased BLEU on Multi30k en-de test2016",
    ),
    "transformer_small": (
        _transformer(3, 256, 4, 1024, 0.1, norm="pre"),
        "3 + 3 layers for two CPU cores and for benchmarks; no published score",
    ),
    "transformer_base": (
        _transformer(6, 512, 8, 2048, 0.1),
        "Vaswani et al. 2017, table 3; published 27.3 BLEU on WMT14 en-de",
    ),
    "transformer_deep_shallow": (
        {**_transformer(12, 512, 8, 2048, 0.2), "num_decoder_layers": 1},
        "Kasai et al. 2021, 12-1; published 26.9 BLEU on WMT14 en-de, 28.3 after distillation",
    ),
    "transformer_big": (
        _transformer(6, 1024, 16, 4096, 0.3),
        "Vaswani et al. 2017, table 3; published 28.4 BLEU on WMT14 en-de",
    ),
}
# Default values of the settings of `Transformer` that not every preset contains.
_DEFAULTS = {
    "attention_dropout": 0.0,
    "ffn_dropout": 0.0,
    "norm": "post",
    "tie_embeddings": "all",
    "alignment_head": "mean",
    "positions": "sinusoidal",
    "max_distance": 16,
    "max_positions": 0,
    "scale_scores": True,
    "scale_embeddings": True,
    "norm_embeddings": False,
    "norm_epsilon": NORM_EPSILON,
    "activation": "relu",
    "output_bias": False,
    "share_layers": "none",
    "distinct_layers": 1,
    "ssru": False,
}


def transformer_settings(preset: str, given: dict[str, Any]) -> dict[str, Any]:
    """Returns all settings of a preset of `TRANSFORMERS`; `given` take the place of its own."""
    return {**_DEFAULTS, **TRANSFORMERS[preset][0], **given}
