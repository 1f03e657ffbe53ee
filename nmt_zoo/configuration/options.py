"""Defines the training options once, for flags, checks, config.json and docs/options.md."""

import difflib
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from nmt_zoo.configuration.rules import holds
from nmt_zoo.data_pipeline.noise import NAMES, NONE
from nmt_zoo.data_pipeline.text_form import FORMS
from nmt_zoo.data_pipeline.tokenization.tokenizers import KINDS

AUTO = "auto"  # Value of a flag with which a new run chooses a value of the option itself.
LENGTH_PENALTY = 1.0  # Alpha of `length_normaliser`, unless a run has chosen another.
MAX_LENGTH_PENALTY = 10.0
# Longest line that is translated, in tokens including `</s>`, counted as by `--max_length`. Real
# sentences are far shorter: by default, training leaves out all above 256, so that models have seen
# nothing longer. Memory for attention grows with the square of the length: each head of a layer
# takes 4 MB at 1,024 tokens, 6 GB at 40,000.
MAX_INPUT_TOKENS = 1024
# Factors on a language model, beside translation models and in a noisy channel.
FUSION_WEIGHT, CHANNEL_WEIGHT = 0.2, 1.0


class Option(NamedTuple):
    """A flag; a training option is also a value that config.json stores.

    `needs` and `excludes` are conditions, see `configuration.rules`: tuples, or dicts whose values
    say why.
    """

    name: str  # of the flag and of the key in config.json
    default: Any  # unless the flag or `configuration.recipes` sets another; gives the type
    help: str  # a whole phrase, with its unit
    group: str = ""  # heading in --help and docs/options.md
    minimum: float | None = None  # smallest number; None for 0
    maximum: float | None = None  # largest number; None for the largest that the type holds
    choices: Collection[str] = ()  # texts that are allowed; empty for any
    needs: Collection[str] = ()  # conditions that must all hold where the option is given
    excludes: Collection[str] = ()  # conditions of which none may hold where the option is given
    when: str = ""  # value, or value|value, with which alone `needs` and `excludes` count; "": any
    required: str = ""  # what the option is for if it must be given, or one of `unless`
    unless: tuple[str, ...] = ()
    resumable: bool = False  # whether the option may change when a run is resumed
    automatic: bool = False  # whether the flag takes `AUTO`, too; config.json then has the choice
    is_path: bool = False  # whether the text is a path, or several separated by commas
    repeatable: bool = False  # whether each use of the flag adds to a list
    kind: type | None = None  # type of the value where the default is None

    def applies(self, options: Mapping[str, Any]) -> bool:
        """Returns whether the option has a meaning, given all options (name -> value)."""
        return all(holds(condition, options) for condition in self.needs)

    def takes(self, value: Any) -> bool:
        """Returns whether a value has the type of the option and lies in its range."""
        kind = self.kind or type(self.default)
        if type(value) is not kind and not (kind is float and type(value) is int):
            return False
        if kind in (str, bool):
            return not self.choices or value in self.choices
        least, largest = self.range()
        return least <= value <= largest  # False for NaN.

    def range(self) -> tuple[float, float]:
        """Returns the (least, largest) number."""
        is_float = (self.kind or type(self.default)) is float
        largest = 3.4e38 if is_float else 2**31 - 1
        return self.minimum or 0, largest if self.maximum is None else self.maximum

    def expected(self, *, limited: bool = False) -> str:
        """Returns the values that the option takes, in words; if `limited`, with any limit."""
        kind = self.kind or type(self.default)
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if kind not in (int, float):
            return "true or false" if kind is bool else "a text in UTF-8"
        noun = "a number" if kind is float else "a whole number"
        least, largest = self.range()
        to = f" to {largest:.10g}" if limited or self.maximum is not None else ""
        return f"{noun} from {least:.10g}{to}"

    def refusal(self, found: str) -> str:
        """Returns what an error says of a value that the option does not take."""
        near = difflib.get_close_matches(found.strip("'").lower(), self.choices, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"expected {self.expected(limited=True)}, found {found}{hint}"


_WAY = [
    Option(
        "update",
        "gradient",
        "How the model learns: by gradient descent, by expectation maximisation (only ibm1, ibm2, "
        "hmm_alignment and hmm_fertility, whose default it is), or by tuning the weights of "
        "counted features (only phrase_based and hiero).",
        choices=("gradient", "em", "tuning"),
        excludes=dict.fromkeys(
            ("corpus_weights", "temperature>1"), "an iteration takes every pair exactly once"
        ),
        when="em|tuning",
    ),
    Option(
        "init_from",
        "",
        "Model directory whose best weights and vocabulary to start from.",
        is_path=True,
    ),
    Option(
        "new_vocabulary",
        False,
        "Makes a vocabulary for the new text. Pieces of the old vocabulary keep "
        "their weights. A new piece starts from the mean of the old pieces that it consists of.",
        needs=("init_from",),
        excludes={"teacher": "the vocabulary of the teacher is used"},
    ),
    Option("seed", 1, "Seed of the weights, of dropout and of the order of batches."),
]
_VOCABULARY = [
    Option(
        "tokenizer",
        "bpe",
        "How text is split into tokens. pretokenized: at white space, by the pieces of "
        "--vocab_file.",
        choices=KINDS,
    ),
    Option(
        "num_pieces",
        8000,  # 4,000 to 10,000 suit 10^4 to 10^6 pairs.
        "Number of subword pieces that both sides share, besides 16 placeholders for text to copy.",
        needs=("tokenizer=bpe",),
        excludes={"vocab_file": "the file has its pieces already"},
    ),
    Option(
        "max_words",
        8000,
        "Largest vocabulary of each side, in entries: 4 special tokens, and the most frequent "
        "words (0: no limit).",
        needs=("tokenizer=word",),
    ),
    Option(
        "min_word_count",
        2,  # Words that occur once become UNK, so that the model learns to handle UNK.
        "Least number of occurrences of a word in the vocabulary; rarer words become UNK.",
        minimum=1,
        needs=("tokenizer=word",),
    ),
    Option(
        "vocab_file",
        "",
        "File of a ready vocabulary. pretokenized: list of pieces, one a line; bpe: SentencePiece "
        "model (.model); ngram_lm: either.",
        needs=("tokenizer=bpe|pretokenized",),
        is_path=True,
    ),
    Option(
        "normalise",
        "nfc",
        "Unicode form of all text that the model reads and writes. nfc: a letter and its accent "
        "are one character; none: characters stay as they are.",
        choices=FORMS,
    ),
]
_PAIRS = [
    Option("max_length", 256, "Longest training sentence, in tokens with </s>.", minimum=1),
    Option(
        "max_length_ratio",
        9.0,  # Drops only pairs that cannot be translations.
        "Largest ratio of the lengths of the two sides of a training pair.",
        minimum=1.0,
    ),
    Option(
        "corpus_weights",
        "",
        "Share of an epoch for each corpus of --train_source=a,b; for example 1,3.",
    ),
    Option(
        "target_languages",
        "",
        "Target language of each corpus of --train_source=a,b, and of --valid_source=c,d in the "
        "same order, for one model of several languages; its tag, such as >>de<<, stands before "
        "each source line. For example de,fr.",
        needs=("tokenizer=bpe",),
        excludes=dict.fromkeys(
            ("vocab_file", "init_from", "teacher"),
            "a vocabulary that exists has no pieces for their tags",
        ),
    ),
    Option(
        "context_sentences",
        0,
        "Sentences before each source line, of the same document, that the model reads with it. A "
        "blank line in both files ends a document.",
        maximum=10,
        needs=("tokenizer=bpe",),
    ),
    Option(
        "temperature",
        1.0,
        "Smooths the shares of several corpora; above 1, small corpora get larger shares.",
        minimum=1.0,
    ),
    Option(
        "bpe_dropout",
        0.0,
        "Probability that BPE-dropout skips a merge, so that every epoch splits the training text "
        "differently (0: always the usual pieces; Provilkov et al. use 0.1).",
        maximum=1.0,
        needs=("tokenizer=bpe",),
    ),
    Option(
        "noise",
        NONE,
        "Kinds of noise with the share of the training pairs that each alters, others in every "
        f"epoch, such as copies=0.05,typos=0.1; {NONE}: no noise. Kinds: {', '.join(NAMES)}.",
        needs=("tokenizer=bpe",),
    ),
]
_BATCHES = [
    Option(
        "max_tokens_per_batch",
        4096,
        "Largest batch, in tokens: its rows times its longer padded side.",
        minimum=1,
    ),
    Option("max_sentences_per_batch", 0, "Most sentence pairs in a batch (0: no limit)."),
    Option(
        "accumulate_steps",
        1,
        "Number of batches whose gradients are added up for one update.",
        minimum=1,
    ),
    Option("pad_to_bucket", False, "Pads batches to at most 24 shapes, for XLA and TPU."),
]
_RATE = [
    Option(
        "optimizer",
        "adam",
        "What changes the weights. muon: matrices but for embeddings by Muon, at the same learning "
        "rate, all else by Adam.",
        choices=("adam", "muon"),
    ),
    Option(
        "adam_beta_2",
        0.98,
        "Decay of Adam's average of squared gradients.",
        maximum=0.99999,
    ),
    Option(
        "learning_rate",
        7e-4,  # (512 * 4000) ** -0.5, the peak for the base model in Vaswani et al. 2017.
        "Learning rate at the end of the warm-up.",
        maximum=1000.0,
    ),
    Option(
        "warmup_steps", 4000, "Number of updates during which the learning rate rises.", minimum=1
    ),
    Option(
        "schedule",
        "inverse_sqrt",
        "Course of the learning rate after the warm-up.",
        choices=("inverse_sqrt", "constant", "linear", "cosine", "plateau"),
    ),
    Option(
        "decay_steps",
        0,
        "Update at which the learning rate reaches 0 (0: --max_steps). Without --max_steps, "
        "the run ends there.",
        needs=("schedule=linear|cosine",),
    ),
    Option(
        "plateau_patience",
        2,
        "Number of validations without improvement before the learning rate falls.",
        minimum=1,
        needs=("schedule=plateau",),
    ),
    Option(
        "weight_decay",
        0.0,
        "Share of each weight that an update subtracts, times the learning rate (AdamW; 0: none, "
        "plain Adam).",
        maximum=1.0,
    ),
    Option("clip_norm", 1.0, "Largest norm of the gradient (0: no limit)."),
]
_LOSS = [
    Option(
        "loss_average",
        "tokens",
        "Whether the loss is averaged over target tokens or over sentences.",
        choices=("tokens", "sentences"),
    ),
    Option(
        "label_smoothing",
        0.1,
        "Probability that label smoothing spreads over all words.",
        maximum=0.999,
    ),
    Option(
        "smoothing_over",
        "vocabulary",
        "What label smoothing spreads its probability over. words: the share of <pad>, which is "
        "never a target, does not count in the loss; slower.",
        choices=("vocabulary", "words"),
        needs=("label_smoothing",),
        excludes={"teacher": "it compares whole distributions"},
        when="words",
    ),
    Option(
        "l2",
        0.0,
        "Factor on the sum of the squares of all matrices of weights, which is added to the loss "
        "that is minimised, but not to the loss that is printed (0: none).",
        maximum=1000.0,
    ),
    Option(
        "guide",
        "",
        "Directory of a trained model with the same vocabulary, such as hmm_alignment. The "
        "attention (in a Transformer: one head) is trained to follow its alignments. Empty: no "
        "guide.",
        is_path=True,
    ),
    Option(
        "guide_weight",
        0.5,  # On the demo corpus; with 0.05, the head was far from the guide after half of a run.
        "Weight of the alignments of --guide in the loss (Garg et al. use 0.05).",
        maximum=1000.0,
        needs=("guide",),
    ),
    Option(
        "token_dropout",
        0.0,
        "Probability that a token that the model reads, source or target, is replaced by <unk> in "
        "training; tokens to predict stay (0: never).",
        maximum=0.999,
    ),
    Option(
        "teacher",
        "",
        "Model directory from whose predictions the model also learns (word-level distillation), "
        "or several, separated by commas; its vocabulary is used.",
        is_path=True,
    ),
    Option(
        "teacher_weight",
        0.5,
        "Share of the loss that compares with the predictions of --teacher, instead of with the "
        "target words.",
        maximum=1.0,
        needs=("teacher",),
    ),
    Option(
        "ema_decay",
        0.0,
        "Decay of a moving average of the weights, which is validated and kept instead of the "
        "weights (0: no average).",
        maximum=0.999999,
    ),
]
_ITERATIONS = [
    Option("model1_steps", 0, "Number of first iterations, which train Model 1."),
    Option(
        "model2_steps",
        0,
        "Number of iterations of Model 2 after those of Model 1.",
    ),
    Option(
        "hmm_steps",
        0,
        "Number of iterations of hmm_fertility without fertilities, after those of Model 2.",
    ),
    Option(
        "alpha",
        0.0,
        "Parameter of a Dirichlet prior that makes the translations of a word sparse (0: no "
        "prior).",
    ),
    Option(
        "leave_one_out",
        False,
        "Computes the probability of a link from the links of all other target words, so that rare "
        "words do not explain whole sentences. Checkpoints hold a number "
        "for each pair of words of each sentence pair.",
        needs={"alpha": "a word pair that occurs once would be impossible"},
    ),
    Option(
        "reverse_model_dir",
        "",
        "Also trains the opposite direction, so that both models agree, and writes it to this "
        "directory.",
        is_path=True,
        excludes=("average_checkpoints>1",),
    ),
]
_END = [
    Option(
        "max_steps",
        0,
        "Stops after this many updates, or iterations with --update=em (0: no limit).",
        resumable=True,
    ),
    Option("max_epochs", 0, "Stops after this many epochs (0: no limit).", resumable=True),
    Option(
        "max_minutes",
        0.0,
        "Minutes that the whole run may take, from the start of the command to its end, with "
        "earlier commands that it resumes (0: no limit).",
        resumable=True,
    ),
    Option(
        "patience",
        10,
        "Stops after this many validations without improvement (0: no limit).",
        resumable=True,
    ),
]
_PACE = [
    Option(
        "eval_every_steps",
        500,
        "Number of updates from one validation to the next.",
        minimum=1,
        resumable=True,
    ),
    Option(
        "save_every_steps",
        500,
        "Number of updates from one checkpoint to the next.",
        minimum=1,
        resumable=True,
    ),
    Option(
        "log_every_steps",
        50,
        "Number of updates from one line of progress to the next.",
        minimum=1,
        resumable=True,
    ),
    Option(
        "average_checkpoints",
        5,
        "Number of last checkpoints that are kept. At the end, averages of them are tried, and the "
        "best one is taken if it is better than the best weights.",
        minimum=1,
        resumable=True,
    ),
    Option(
        "keep_best_by",
        "perplexity",
        "Score of a validation that decides which weights are the best.",
        choices=("perplexity", "bleu"),
        needs=("bleu_lines",),
        when="bleu",
    ),
    Option(
        "tokenize",
        AUTO,
        "Tokenisation of BLEU in validation, as sacrebleu --tokenize. auto: the one that suits the "
        "script of the validation text.",
    ),
    Option(
        "bleu_lines",
        1000,
        "Number of validation lines that are translated for BLEU (0: no BLEU), and, with "
        "--update=tuning, on which weights are tuned.",
        resumable=True,
    ),
]
_MACHINE = [
    Option(
        "precision",
        "float32",
        "Number format of matrix products; weights stay float32. With auto, a new run times a few "
        "updates and takes bfloat16 if it is clearly faster than float32.",
        choices=("float32", "bfloat16", "float16"),
        automatic=True,
    ),
    Option(
        "jit_compile",
        False,
        "Compiles updates with XLA.",
        needs={"pad_to_bucket": "XLA takes many seconds to compile an update for each new shape"},
    ),
    Option(
        "intra_op_threads",
        0,
        "Number of threads that share one operation (0: all cores, or a replica's part of them if "
        "--num_replicas divides the processor).",
        maximum=1024,
        resumable=True,
    ),
]
_GROUPS = {
    "Way of training": _WAY,
    "Vocabulary": _VOCABULARY,
    "Training pairs": _PAIRS,
    "Batches": _BATCHES,
    "Optimizer and learning rate": _RATE,
    "Loss and regularisation": _LOSS,
    "Expectation maximisation": _ITERATIONS,
    "How long": _END,
    "Validation, checkpoints and log": _PACE,
    "Arithmetic and threads": _MACHINE,
}
BY_NAME = {
    option.name: option._replace(group=group)
    for group, options in _GROUPS.items()
    for option in options
}
OPTIONS = BY_NAME.values()  # Also those that `add_option` adds later.
BUILT_IN = frozenset(BY_NAME)  # `add_option` adds others.
DEFAULTS = {option.name: option.default for option in OPTIONS}
# Options that determine the vocabulary.
VOCABULARY = tuple(option.name for option in _VOCABULARY)


def add_option(option: Option) -> None:
    """Adds a training option, or replaces the one of its name."""
    BY_NAME[option.name] = option
    DEFAULTS[option.name] = option.default
