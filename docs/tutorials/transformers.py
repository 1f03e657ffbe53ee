"""The Transformers of public tutorials.

    python train.py --model=docs/tutorials/transformers.py:KerasIO ...

They are the zoo's Transformer with other settings, but for what `TutorialTransformer` says.
"""

from keras import initializers, ops

import nmt_zoo
from nmt_zoo.models.layers.basic import Dropout
from nmt_zoo.models.transformer import Transformer

# A constant learning rate, the plain cross-entropy, and the last weights as they are.
OPTIONS = {
    "schedule": "constant",
    "warmup_steps": 1,
    "learning_rate": 1e-3,
    "adam_beta_2": 0.999,
    "clip_norm": 0.0,
    "label_smoothing": 0.0,
    "max_sentences_per_batch": 64,
    "max_tokens_per_batch": 16384,
    "average_checkpoints": 1,
    "bleu_lines": 0,
    "patience": 0,
}
SETTINGS = {
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "width": 256,
    "num_heads": 8,
    "ffn_width": 2048,
    "dropout": 0.0,
    "tie_embeddings": "none",
    "output_bias": True,
    "scale_embeddings": False,
    "norm_epsilon": 1e-3,
}


class TutorialTransformer(Transformer):
    """A Transformer of `keras.layers.MultiHeadAttention`, with dropout before the output layer.

    The size of its heads need not be D / H, and its matrices start as in Keras, much smaller than
    in the zoo. `head_width` is the size of a head, 0 for D / H; `output_dropout` is in [0, 1).
    """

    head_width = 0
    output_dropout = 0.0

    def build(self, input_shape=None):
        if not self.built:
            for layer in (*self.encoder.layers, *self.decoder.layers):
                for name in ("self_attention", "cross_attention"):
                    if hasattr(layer, name):
                        self._as_in_keras(getattr(layer, name))
            rate, policy = self.output_dropout, self.dtype_policy
            self.before_output = Dropout(rate, name="before_output", dtype=policy)
        super().build(input_shape)

    def _as_in_keras(self, attention):
        """Changes the sizes and first weights of an attention that has no weights yet."""
        heads = attention.num_heads
        size = self.head_width or self.width // heads
        attention.width = heads * size
        for layer in (attention.query, attention.key, attention.value):
            layer.units = attention.width
            layer.kernel_initializer = _in_parts(self.width, heads, size)
        attention.output_projection.input_width = attention.width
        attention.output_projection.kernel_initializer = _in_parts(heads, size, self.width)

    def features_and_alignment(self, inputs, training=None):
        features, alignment = super().features_and_alignment(inputs, training)
        return self.before_output(features, training=training), alignment


def _in_parts(*parts):
    """Returns an initializer of matrices that draws them as an array of the shape `parts`."""
    draw = initializers.GlorotUniform()  # The more numbers in a part, the smaller they are.
    return lambda shape, dtype=None: ops.reshape(draw(parts, dtype), shape)


_WORDS = {**OPTIONS, "tokenizer": "word", "max_words": 15000, "min_word_count": 1}
_PIECES = {**OPTIONS, "tokenizer": "bpe"}  # The size of the text chooses how many: give a flag.


@nmt_zoo.register(
    settings={**SETTINGS, "positions": "learned", "max_positions": 20},
    options={**_WORDS, "max_length": 20},
)
class KerasIO(TutorialTransformer):
    """The Transformer of keras.io: 19,960,216 parameters with 15,000 words a side."""

    head_width = 256
    output_dropout = 0.5


@nmt_zoo.register(
    settings={**SETTINGS, "positions": "learned", "max_positions": 40, "norm_epsilon": 1e-5},
    options={**_PIECES, "max_length": 40},
)
class KerasHub(TutorialTransformer):
    """The same by KerasHub: 14,449,304 parameters with 15,000 pieces a side."""

    output_dropout = 0.5


@nmt_zoo.register(
    settings={**SETTINGS, "num_encoder_layers": 4, "num_decoder_layers": 4, "width": 128}
    | {"ffn_width": 512, "dropout": 0.1, "attention_dropout": 0.1}
    | {"positions": "marian", "scale_embeddings": True},
    options={**_PIECES, "max_length": 128}
    | {"schedule": "inverse_sqrt", "warmup_steps": 4000, "learning_rate": (128 * 4000) ** -0.5}
    | {"adam_beta_2": 0.98},
)
class TensorFlowOrg(TutorialTransformer):
    """The Transformer of tensorflow.org: each of its 8 heads is as wide as the whole model."""

    head_width = 128


@nmt_zoo.register(
    settings={**SETTINGS, "num_encoder_layers": 2, "num_decoder_layers": 2, "num_heads": 4}
    | {"ffn_width": 64, "dropout": 0.2, "attention_dropout": 0.2}
    | {"scale_embeddings": True, "norm_epsilon": 1e-5},
    options={**_WORDS, "min_word_count": 2, "max_length": 9, "clip_norm": 1.0}
    | {"max_sentences_per_batch": 128, "learning_rate": 1.5e-3},
)
class D2LTransformer(TutorialTransformer):
    """The Transformer of d2l.ai."""
