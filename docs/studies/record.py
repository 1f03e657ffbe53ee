"""Trains for half an hour on lower-cased Multi30k, and tries one change of the recipe at a time.

    python -m docs.studies.record record-1 record-2 record-3
    python -m docs.studies.record muon muon_6 # Trials: validation text alone.
    python -m docs.studies.record             # The tables alone.

docs/results/record/NAME.json has the figures of a run. The test text is translated by the records
alone. Its BLEU is also that of papers (lower case, tokens) if the package sacremoses is installed.
"""

import importlib.util
import sys
from typing import Any

from docs.studies.trials import DATA, Study, Trial, kept, main, run, run_python
from nmt_zoo.common.files import read_lines

# The recipe of runs/multi30k.sh, for fewer updates.
USUAL = {"model": "transformer_tiny", "num_pieces": 6000, "set=positions": "rotary"}
USUAL |= {"set=dropout": 0.2, "bpe_dropout": 0, "noise": "none", "schedule": "cosine"}
USUAL |= {"patience": 0, "precision": "auto", "max_steps": 2000, "warmup_steps": 600}
USUAL |= {"learning_rate": "3e-3", "eval_every_steps": 1000, "intra_op_threads": 1}
USUAL |= {"average_checkpoints": 1, "bleu_lines": 200}
TEXT = f"{DATA}/multi30k_en_de_lower"
USUAL |= {"train_source": f"{TEXT}/train.en", "train_target": f"{TEXT}/train.de"}
USUAL |= {"valid_source": f"{TEXT}/valid.en", "valid_target": f"{TEXT}/valid.de"}

MUON = {"optimizer": "muon"}
BEST = {**MUON, "learning_rate": "1.2e-2"}
LONG = {"max_steps": 7200, "eval_every_steps": 1800, "bpe_dropout": 0.05, "bleu_lines": 1014}
LINKS = f"{DATA}/record_links"
GUIDED = {"num_pieces": None, "vocab_file": f"{LINKS}/tokenizer/shared.model", "guide": LINKS}
FRENCH, LESS = f"{DATA}/record_french", {**BEST, "max_steps": 1000, "warmup_steps": 300}
HALF = {"max_tokens_per_batch": 1024, "max_steps": 4000, "warmup_steps": 1200}
TRIALS = {
    "adam": Trial("Adam, rate 3e-3"),
    "adam_6": Trial("Adam, 6e-3", {"learning_rate": "6e-3"}),
    "free": Trial("schedule-free AdamW, 3e-3", {"schedule": "constant"}, "free"),
    "muon": Trial("Muon, 3e-3", MUON),
    "muon_6": Trial("Muon, 6e-3", {**MUON, "learning_rate": "6e-3"}),
    "muon_12": Trial("Muon, 1.2e-2", BEST),
    "muon_24": Trial("Muon, 2.4e-2", {**MUON, "learning_rate": "2.4e-2"}),
    "half": Trial("as 1.2e-2, half the tokens an update", {**BEST, **HALF}),
    "squared": Trial("as 1.2e-2, squared ReLU", BEST, "squared"),
    "zero": Trial("as 1.2e-2, sub-layers begin at 0", BEST, "zero"),
    "norm": Trial("as 1.2e-2, normalised queries and keys", {**BEST, "bleu_lines": 0}, "norm"),
    "guided": Trial("as 1.2e-2, links of an HMM guide the attention", {**BEST, **GUIDED}),
    "french": Trial(
        "as 1.2e-2, 1,000 updates after 1,000 of English to French",
        {**LESS, "init_from": FRENCH, "new_vocabulary": True},
    ),
    "long": Trial("as 1.2e-2, BPE-dropout 0.05, 7,200 updates; all lines", {**BEST, **LONG}),
    "long_0": Trial("the same without BPE-dropout", {**BEST, **LONG, "bpe_dropout": 0}),
    "long_30": Trial(
        "the same without BPE-dropout, dropout 0.3",
        {**BEST, **LONG, "bpe_dropout": 0, "set=dropout": 0.3},
    ),
}


def squared() -> None:
    """Squares the ReLU of the feed-forward sub-layers (So et al. 2021)."""
    from keras import ops

    from nmt_zoo.models.layers import transformer_layers

    transformer_layers.ACTIVATIONS["relu"] = lambda x: ops.square(ops.relu(x))


def zero() -> None:
    """Lets attention and feed-forward sub-layers return 0 at first."""
    from nmt_zoo.models.layers import basic

    make = basic.Dense.__init__

    def begin(self: Any, *sizes: Any, **settings: Any) -> None:
        if settings.get("name") in ("output", "outer"):
            settings["kernel_initializer"] = "zeros"
        make(self, *sizes, **settings)

    basic.Dense.__init__ = begin


def norm() -> None:
    """Normalises queries and keys of self-attention, and keys of all (Henry et al. 2020).

    Only whole passes do so, which is enough for a perplexity.
    """
    from keras import ops

    from nmt_zoo.models.layers.attention import MultiHeadAttention

    placed = MultiHeadAttention._placed

    def normalised(self: Any, x: Any) -> Any:
        y = ops.cast(x, "float32")
        y = y * ops.rsqrt(ops.mean(ops.square(y), axis=-1, keepdims=True) + 1e-6)
        return placed(self, ops.cast(y, x.dtype))

    MultiHeadAttention._placed = normalised


def free() -> None:
    """Takes the place of Adam by that of Defazio et al. 2024, as Keras has it."""
    import keras

    from nmt_zoo.training.ways.gradient import adam, gradient

    def make(learning_rate: float, warmup_steps: int, **_: Any) -> Any:
        rate = adam.Constant(learning_rate, warmup_steps)
        others = {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-9, "weight_decay": None}
        return keras.optimizers.ScheduleFreeAdamW(rate, warmup_steps=0, **others)

    gradient.adam = make


CHANGES = {"squared": squared, "zero": zero, "norm": norm, "free": free}


def prepare(data_dir: str, name: str) -> None:
    """Lower-cases the text by runs/record.sh, which then ends; trains what a trial starts from."""
    for language in ("de", "fr") if name == "french" else ("de",):
        given = {"DATA": data_dir, "TO": language, "TEXT_ONLY": "1"}
        run("runs/record.sh", PYTHON=sys.executable, **given)
    if name == "french":
        flags = {key: str(value).replace("en_de", "en_fr") for key, value in USUAL.items()}
        files = {key: flags[key].replace(".de", ".fr") for key in ("train_target", "valid_target")}
        run_python("train.py", {**flags, **files, **LESS, "model_dir": FRENCH}, data_dir)
    if name == "guided":
        flags = {"model": "hmm_alignment", "tokenizer": "bpe", "num_pieces": USUAL["num_pieces"]}
        flags |= {key: USUAL[key] for key in USUAL if key.startswith(("train_", "valid_"))}
        run_python("train.py", {**flags, "model_dir": LINKS}, data_dir)


def score(data_dir: str, folder: str, seed: int) -> dict[str, Any]:
    """Trains and scores by runs/record.sh; returns the facts of the run."""
    given = {"DATA": data_dir, "MODEL_DIR": folder, "SEED": str(seed)}
    run("runs/record.sh", PYTHON=sys.executable, **given)
    facts = kept(folder)
    if importlib.util.find_spec("sacremoses"):
        reference = f"{TEXT}/test.de".replace(DATA, data_dir)
        facts["bleu_of_moses_tokens"] = of_tokens(f"{folder}/test.de", reference)
    return facts


def of_tokens(output: str, reference: str) -> float:
    """Returns BLEU of two files, tokenised as Moses does, as papers on Multi30k count."""
    import sacrebleu
    import sacremoses

    split = sacremoses.MosesTokenizer("de").tokenize
    sides = ([split(x, return_str=True) for x in read_lines(path)] for path in (output, reference))
    found, expected = sides
    return sacrebleu.corpus_bleu(found, [expected], tokenize="none", force=True).score


SCORES = {"BLEU": "bleu", "chrF": "chrf", "BLEU of Moses tokens": "bleu_of_moses_tokens"}
STUDY = Study("record", USUAL, prepare, TRIALS, CHANGES, score, SCORES)

if __name__ == "__main__":
    main(STUDY)
