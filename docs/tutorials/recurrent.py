"""The recurrent networks of public tutorials.

python train.py --model=docs/tutorials/recurrent.py:TensorFlowAttention ...
"""

import keras
from keras import ops

import nmt_zoo
from nmt_zoo.models.base import TranslationModel, by_hypothesis, dense_weights, require, settings_of
from nmt_zoo.models.layers.attention import MultiHeadAttention
from nmt_zoo.models.layers.basic import Composite, Dense
from nmt_zoo.models.layers.embeddings import Embedding
from nmt_zoo.models.layers.masks import padding_mask
from nmt_zoo.models.layers.recurrent import BidirectionalLayer, RecurrentLayer
from nmt_zoo.models.layers.transformer_layers import LayerNorm
from nmt_zoo.models.rnn import RecurrentTranslationModel

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
    "intra_op_threads": 1,  # Loops over time are quicker so.
}
_WORDS = {**OPTIONS, "tokenizer": "word", "max_words": 5000, "min_word_count": 1}


@nmt_zoo.register(options=_WORDS)
class TensorFlowAttention(Composite, TranslationModel):
    """Attention tutorial of tensorflow.org: `norm(h_t + attention(h_t))` of two recurrent layers.

    The encoder adds both directions up. The decoder starts from zeros, and nothing that it attends
    to enters it. `units` is D, the size of everything.
    """

    def __init__(self, source_vocab_size, target_vocab_size, *, units=256, **kwargs):
        settings = settings_of(locals())
        super().__init__(source_vocab_size, target_vocab_size, **kwargs)
        self.settings = settings
        policy = {"dtype": self.dtype_policy}
        self.source_embedding = Embedding(source_vocab_size, units, name="source", **policy)
        self.target_embedding = Embedding(target_vocab_size, units, name="target", **policy)
        self.encoder = BidirectionalLayer("gru", units, units, name="encoder", **policy)
        self.decoder = RecurrentLayer("gru", units, units, name="decoder", **policy)
        self.attention = MultiHeadAttention(units, 1, name="attention", **policy)
        self.norm = LayerNorm({"norm_epsilon": 1e-3, "width": units}, name="norm", **policy)
        self.output_layer = Dense(units, target_vocab_size, name="output", **policy)
        self.build()

    def _read(self, source_ids):
        """`[B, S]` ids -> memory `[B, S, D]` and mask `[B, S]`."""
        mask = padding_mask(source_ids, self.pad_id)
        memory, _ = self.encoder(self.source_embedding(source_ids), step_mask=mask)
        return sum(ops.split(memory, 2, axis=-1)), mask

    def encode(self, source_ids, training=False):
        """Context: `source_mask [B, S]`; `keys` and `values [B, 1, S, D]`."""
        memory, mask = self._read(source_ids)
        keys, values = self.attention.project_memory(memory)
        return {"source_mask": mask, "keys": keys, "values": values}

    def features_and_alignment(self, inputs, training=None):
        memory, mask = self._read(inputs["source_ids"])
        h, _ = self.decoder(self.target_embedding(inputs["target_in_ids"]))
        output, weights = self.attention(h, memory, mask[:, None, None])
        return self.norm(h + output), weights[:, 0]

    def output_weights(self):
        return dense_weights(self.output_layer)

    def initial_state(self, context):
        """State: `cells`, h `[B, D]` in a list."""
        return {"cells": self.decoder.zero_state(ops.shape(context["source_mask"])[0])}

    def step_features(self, token_ids, step, state, context):
        memory = context["keys"], context["values"], context["source_mask"][:, None, None]
        cells = self.decoder.step(self.target_embedding(token_ids), state["cells"])
        output, weights = self.attention.step(cells[0], *memory)
        return self.norm(cells[0] + output), {"cells": cells}, by_hypothesis(weights[:, 0])

    def attention_maps(self, source_ids, target_ids):
        return {"decoder/0/cross": self.align(source_ids, target_ids)[:, None]}


_NO_DROPOUT = dict.fromkeys(("embedding_dropout", "dropout", "output_dropout"), 0.0)
_PLAIN = {**_NO_DROPOUT, "bidirectional": False, "input_feeding": False, "initial_state": "final"}


@nmt_zoo.register(
    settings={**_PLAIN, "encoder_units": 256, "decoder_units": 256, "score": "none"},
    options={**OPTIONS, "tokenizer": "bpe"},
)
class Characters(RecurrentTranslationModel):
    """Two LSTM of keras.io, without attention; characters are one-hot vectors."""

    def __init__(self, source_vocab_size, target_vocab_size, **kwargs):
        require(source_vocab_size == target_vocab_size, "both sides need the same characters")
        kwargs["embedding_width"] = source_vocab_size
        super().__init__(source_vocab_size, target_vocab_size, **kwargs)

    def build(self, input_shape=None):
        if not self.built:
            for embedding in (self.source_embedding, self.target_embedding):
                embedding.embeddings_initializer = keras.initializers.Identity()
                embedding.trainable = False
        super().build(input_shape)


@nmt_zoo.register(
    settings={**_PLAIN, "cell": "gru", "num_encoder_layers": 2, "num_decoder_layers": 2}
    | {"embedding_width": 256, "encoder_units": 256, "decoder_units": 256, "dropout": 0.2}
    | {"score": "additive", "rank": 256, "attend_before": True},
    options={**_WORDS, "min_word_count": 2, "max_length": 9, "max_sentences_per_batch": 128}
    | {"learning_rate": 5e-3, "clip_norm": 1.0},
)
class D2LAttention(RecurrentTranslationModel):
    """GRU with additive attention of d2l.ai; the output layer reads the decoder's state alone."""

    def build(self, input_shape=None):
        if not self.built:
            decoder = self.decoder
            decoder._layers.remove(decoder.combination)
            decoder.combination, decoder.combine = None, lambda vectors, top: top
        super().build(input_shape)
