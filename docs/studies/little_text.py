"""Trains a Transformer on 10,000 sentence pairs of Europarl, with the help of models that count.

    python -m docs.studies.little_text phrases plain # Trials: validation text alone.
    python -m docs.studies.little_text little_text-1 little_text-2 little_text-3
    python -m docs.studies.little_text               # The tables alone.

docs/results/little_text/NAME.json has the figures of a run. The test text is translated by the
seeds alone.
"""

import os
import sys
from typing import Any

from docs.studies.trials import DATA, Study, Trial, kept, main, run, run_python
from nmt_zoo.data_pipeline import datasets

TEXT, MADE = f"{DATA}/europarl10k_de_en", f"{DATA}/little_text"
SOURCE, TARGET = f"{TEXT}/train.de", f"{TEXT}/train.en"
USUAL = {"model": "transformer_tiny", "set=positions": "rotary", "set=dropout": 0.3}
USUAL |= {"noise": "none", "optimizer": "muon", "learning_rate": "1.2e-2", "schedule": "cosine"}
USUAL |= {"warmup_steps": 300, "max_steps": 3500, "eval_every_steps": 700, "patience": 0}
USUAL |= {"average_checkpoints": 1, "intra_op_threads": 1, "bleu_lines": 500}
USUAL |= {"vocab_file": f"{MADE}/links/tokenizer/shared.model", "guide": f"{MADE}/links"}
USUAL |= {"train_source": f"{SOURCE},{MADE}/phrases.source,{MADE}/twos.source"}
USUAL |= {"train_target": f"{TARGET},{MADE}/phrases.target,{MADE}/twos.target"}
USUAL |= {"corpus_weights": "1,2,1"}
USUAL |= {"valid_source": f"{TEXT}/valid.de", "valid_target": f"{TEXT}/valid.en"}

ALONE = {"train_source": SOURCE, "train_target": TARGET, "corpus_weights": None}
PHRASES = {"train_source": f"{SOURCE},{MADE}/phrases.source", "corpus_weights": "1,1"}
PHRASES |= {"train_target": f"{TARGET},{MADE}/phrases.target"}
FEW, MANY = (
    {"vocab_file": f"{MADE}/{n}/tokenizer/shared.model", "guide": f"{MADE}/{n}"}
    for n in ("2000", "16000")
)
BOTH = {
    "train_source": f"{USUAL['train_source']},{USUAL['train_target']}",
    "train_target": f"{USUAL['train_target']},{USUAL['train_source']}",
    "corpus_weights": "1,2,1,1,2,1",
    "guide": f"{MADE}/both",
}
TRIALS = {
    "plain": Trial("sentences alone", {**ALONE, "guide": None}),
    "guide": Trial("links that guide the attention", ALONE),
    "phrases": Trial("links, and phrases as half of the lines", PHRASES),
    "twos": Trial("links, phrases, and lines of two sentences as a quarter"),
    "unguided": Trial("as this, without links", {"guide": None}),
    "pieces": Trial("as this, 2,000 pieces", FEW),
    "many": Trial("as this, 16,000 pieces", MANY),
    "dropout": Trial("as this, dropout 0.4", {"set=dropout": 0.4}),
    "bpe_dropout": Trial("as this, BPE-dropout 0.1", {"bpe_dropout": 0.1}),
    "both": Trial("as this, half of the lines English to German", BOTH),
    "consistent": Trial("as this, R-Drop", {"max_tokens_per_batch": 1024}, "consistency"),
    "lexical": Trial("as this, with a lexical layer", None, "lexical"),
}


def lexical() -> None:
    """Adds what the aligned source words are by themselves (as Nguyen and Chiang 2018).

    The layer has the vectors of target words as output weights, and begins at 0.
    """
    from keras import ops

    from nmt_zoo.models.layers.basic import Dense
    from nmt_zoo.models.transformer import Transformer

    build, encode, step = Transformer.build, Transformer.encode, Transformer.step_features

    def built(self: Any, *shapes: Any) -> None:
        if not hasattr(self, "lexical"):
            options = {"use_bias": False, "kernel_initializer": "zeros", "name": "lexical"}
            self.lexical = Dense(self.width, self.width, dtype=self.dtype_policy, **options)
        build(self, *shapes)

    def added(self: Any, features: Any, attention: Any, words: Any) -> Any:
        return features + self.lexical(
            ops.tanh(ops.matmul(ops.cast(attention, words.dtype), words))
        )

    def whole(self: Any, inputs: Any, training: bool | None = None) -> tuple[Any, Any]:
        memory, mask, _ = self._encode(inputs["source_ids"], training)
        features, _, maps = self._decode(inputs["target_in_ids"], memory, mask, training)
        words = self.source_embedding(inputs["source_ids"])
        attention = self._alignment(maps)
        words = self.embedding_dropout(words, training=training)
        return added(self, features, attention, words), attention

    def encoded(self: Any, source_ids: Any, training: bool = False) -> dict[str, Any]:
        return encode(self, source_ids, training) | {"words": self.source_embedding(source_ids)}

    def stepped(self: Any, token_ids: Any, at: Any, state: Any, context: Any) -> tuple[Any, ...]:
        x, state, attention = step(self, token_ids, at, state, context)
        sentences, length, _ = ops.shape(context["words"])
        attended = ops.reshape(attention, (sentences, -1, length))
        features = ops.reshape(x, (sentences, -1, self.width))
        features = added(self, features, attended, context["words"])
        return ops.reshape(features, (-1, self.width)), state, attention

    Transformer.build, Transformer.encode = built, encoded
    Transformer.features_and_alignment, Transformer.step_features = whole, stepped


def consistency() -> None:
    """Reads each batch twice, and lets both predictions differ little (as Liang et al. 2021)."""
    import tensorflow as tf

    from nmt_zoo.training.ways.gradient.gradient import Gradient
    from nmt_zoo.training.ways.gradient.losses import logits_of

    losses, outputs, found = Gradient._losses, Gradient._outputs, []

    def recorded(self: Any, inputs: Any) -> Any:
        found[:] = [outputs(self, inputs)]
        return found[0]

    def of_two(self: Any, batch: Any) -> tuple[Any, Any, Any]:
        loss, nll, tokens = losses(self, {n: tf.concat([ids, ids], 0) for n, ids in batch.items()})
        features, weights, _ = found[0]
        real = batch["target_ids"] != self.model.pad_id
        some = real & (tf.random.uniform(tf.shape(real)) < 0.25)  # All would take half of the time.
        one, other = (
            tf.nn.log_softmax(logits_of(tf.boolean_mask(x, some), *weights))
            for x in tf.split(features, 2)
        )
        apart = tf.reduce_sum((tf.exp(one) - tf.exp(other)) * (one - other))
        return loss / 2 + 5 * apart, nll / 2, tokens / 2

    Gradient._losses, Gradient._outputs = of_two, recorded


def run_script(data_dir: str, *flags: str, **variables: str) -> None:
    """Runs runs/little_text.sh on Europarl."""
    datasets.prepare("europarl10k_de_en", data_dir)
    given = {"PYTHON": sys.executable, "SOURCE": SOURCE, "TARGET": TARGET, **variables}
    given |= {"VALID_SOURCE": f"{TEXT}/valid.de", "VALID_TARGET": f"{TEXT}/valid.en"}
    given = {name: value.replace(DATA, data_dir) for name, value in given.items()}
    run("runs/little_text.sh", *flags, **given)


def score(data_dir: str, folder: str, seed: int) -> dict[str, Any]:
    """Trains by runs/little_text.sh, translates the test text, and returns the facts of the run."""
    runs, name = os.path.split(folder)
    variables = {"RUNS": runs, "NAME": name, "SEED": str(seed), "MINUTES": "45"}
    run_script(data_dir, "--intra_op_threads=1", **variables)
    flags = {"model_dir": folder, "beam_size": 5, "tokenize": "none", "lowercase": True}
    flags |= {"input": f"{TEXT}/test.de", "reference": f"{TEXT}/test.en"}
    flags |= {"output": f"{folder}/test.en", "save_scores": f"{folder}/scores.json"}
    run_python("translate.py", flags, data_dir)
    return kept(folder)


def prepare(data_dir: str, _name: str) -> None:
    """Writes phrases, and trains the aligners that guide, by runs/little_text.sh and train.py."""
    run_script(data_dir, RUNS=MADE, TEXT_ONLY="1")
    usual = {"model": "hmm_alignment", "tokenizer": "bpe"}
    usual |= {"train_source": SOURCE, "train_target": TARGET}
    usual |= {name: USUAL[name] for name in ("valid_source", "valid_target")}
    both = {"train_source": f"{SOURCE},{TARGET}", "train_target": f"{TARGET},{SOURCE}"}
    both |= {"vocab_file": USUAL["vocab_file"]}
    changes = {"2000": {"num_pieces": 2000}, "16000": {"num_pieces": 16000}, "both": both}
    for name, flags in changes.items():
        run_python("train.py", {**usual, **flags, "model_dir": f"{MADE}/{name}"}, data_dir)


SCORES = {"BLEU": "bleu", "chrF": "chrf"}
CHANGES = {"lexical": lexical, "consistency": consistency}
STUDY = Study("little_text", USUAL, prepare, TRIALS, CHANGES, score, SCORES)

if __name__ == "__main__":
    main(STUDY)
