"""The experiments of docs/studies: corpus, flags of training and translating."""

from typing import NamedTuple

from nmt_zoo import models


class Run(NamedTuple):
    """One training of a study, and what is done with it.

    `flags` are those of train.py; `{self}` stands for the model directory, and `{NAME}` for that of
    another run of the study with seed 1, which is trained first.
    """

    flags: tuple[str, ...] = ()
    members: str = ""  # Name of the run whose seeds translate together; "": it trains a model.
    is_lowercased: bool = False  # The text is put in lower case.
    lexicon: bool = False  # A lexicon of align.py translates unknown words.


class Study(NamedTuple):
    """A corpus, and the runs on it."""

    title: str  # Of the text that is scored, in tables.
    dataset: str  # Name of the corpus for train.py.
    results: str  # Folder of the records in docs/results.
    runs: dict[str, Run]
    search: tuple[str, ...] = ()  # Flags of translate.py.
    pairs: int | None = None  # Number of training pairs, the first of the text; None: all.


# On one core, because two runs side by side make more updates than one after the other on both.
_ALL = (
    *("--average_checkpoints=8", "--save_every_steps=250", "--patience=0"),
    *("--precision=bfloat16", "--intra_op_threads=1", "--copy_share=0"),
)
_TINY = ("--model=transformer_tiny", "--schedule=cosine", "--learning_rate=3e-3", *_ALL)
# Else the size of the text chooses.
_WITHOUT = ("--bpe_dropout=0", "--set=positions=sinusoidal")
_ROTARY = ("--set=positions=rotary",)
_DEEP_SHALLOW = ("--set=num_encoder_layers=7", "--set=num_decoder_layers=1")
_EMA = ("--ema_decay=0.999",)
_GUIDE = ("--guide={aligner}", "--guide_weight=0.5")
METHODS = {
    "plain": (),
    "bpe_dropout": ("--bpe_dropout=0.1",),
    "copies": ("--copy_share=0.05",),
    "token_dropout": ("--token_dropout=0.1",),
    "relative": ("--set=positions=relative",),
    "rotary": _ROTARY,
    "deep_shallow": _DEEP_SHALLOW,
    "shared_layers": ("--set=share_layers=cycle_reversed", "--set=distinct_layers=2"),
    "ema": _EMA,
    "float32": ("--precision=float32",),
    "guide": _GUIDE,
    "teacher": ("--teacher={plain}", "--teacher_weight=0.5"),
    "rotary_deep_shallow": (*_ROTARY, *_DEEP_SHALLOW),
    "rotary_ema": (*_ROTARY, *_EMA),
    "rotary_guide": (*_ROTARY, *_GUIDE),
}


def _methods(*flags):
    """Returns a run for each method, with the flags of all, and the aligner for --guide."""
    pieces = [flag for flag in flags if flag.startswith("--num_pieces")]
    aligner = ("--model=hmm_alignment", "--tokenizer=bpe", *pieces)
    runs = {name: Run((*flags, *own)) for name, own in METHODS.items()}
    return {**runs, "aligner": Run((*aligner, "--reverse_model_dir={self}_reverse"))}


# What train.py chooses by itself, in the number type that the processor is fast at.
_DEFAULT = {"default": Run(("--precision=auto",))}
_MULTI30K = (
    *(*_TINY, "--num_pieces=6000", "--set=dropout=0.2", "--max_tokens_per_batch=2048"),
    *("--warmup_steps=1000", "--eval_every_steps=2000", "--bleu_lines=200"),
)
_RECIPE = Run((*_MULTI30K, "--bpe_dropout=0.1", *_ROTARY, "--max_steps=32000"))
_LOWERCASED = _RECIPE._replace(is_lowercased=True)
# Other models, each for at most an hour on one core. Small batches make more updates in that time.
_MODEL = (
    *("--schedule=cosine", "--learning_rate=1e-3", "--eval_every_steps=500", "--bleu_lines=200"),
    *(*_ALL, "--max_tokens_per_batch=1024"),
)
_MODELS = {
    "rnn_attention": ("--warmup_steps=500", "--max_steps=7000"),
    "gru_bahdanau": ("--warmup_steps=100", "--max_steps=1150"),
    "lstm_conv": ("--warmup_steps=500", "--max_steps=6000"),
    "transformer_simple": ("--learning_rate=1.5e-4", "--warmup_steps=1000", "--max_steps=10000"),
    "transformer_small": (
        *("--max_tokens_per_batch=2048", "--set=dropout=0.2"),
        *("--warmup_steps=500", "--max_steps=3500"),
    ),
}


def _multi30k(source, target):
    runs = {
        **_methods(*_MULTI30K, *_WITHOUT, "--max_steps=5000"),
        **_DEFAULT,
        "recipe": _RECIPE,
        "ensemble": Run(members="recipe"),
        "recipe_lowercased": _LOWERCASED,
        "ensemble_lowercased": Run(members="recipe_lowercased", is_lowercased=True),
        **{name: Run((f"--model={name}", *_MODEL, *own)) for name, own in _MODELS.items()},
    }
    name, title = f"multi30k_{source}_{target}", f"Multi30k {source}-{target}, test_2016_flickr"
    return Study(title, name, f"methods/{name}", runs, ("--beam_size=5",))


# Fewer pieces and more dropout for fewer pairs.
_FEW = (*_TINY, *_WITHOUT, "--num_pieces=2000", "--set=dropout=0.3")
_MULTI30K_5000 = (
    *(*_FEW, "--max_tokens_per_batch=1024", "--warmup_steps=500", "--eval_every_steps=1000"),
    *("--bleu_lines=200", "--max_steps=5000"),
)
_EUROPARL = (
    *(*_FEW, "--max_tokens_per_batch=2048", "--warmup_steps=400", "--eval_every_steps=500"),
    "--max_steps=3000",
)

# In twice its usual width, with more dropout. Words that occur once are UNK.
_EUROPARL_RECIPE = (
    *("--model=lstm_lexical", "--tokenizer=word", "--max_words=0", "--min_word_count=2"),
    *("--set=embedding_width=128", "--set=encoder_units=256", "--set=decoder_units=256"),
    *("--set=embedding_dropout=0.4", "--set=dropout=0.4", "--set=output_dropout=0.4"),
    *("--max_tokens_per_batch=400", "--schedule=cosine", "--learning_rate=2e-3"),
    *("--warmup_steps=200", "--eval_every_steps=1000", "--save_every_steps=250"),
    *("--average_checkpoints=8", "--patience=0", "--max_steps=10000", "--intra_op_threads=1"),
)

_DEMO = "demo corpus en-de, test"


def _demo_alignment():
    """Returns a run of three minutes for each preset; others than networks need less."""
    # A validation takes as long as several hundred updates, too long for such short runs.
    rarely = ("--eval_every_steps=1000", "--save_every_steps=100", "--bleu_lines=100")
    runs = {}
    for preset in models.preset_names():
        by_gradient = models.PRESETS[preset][0].trained_by[0] == "gradient"
        limits = ("--max_steps=0", *rarely) if by_gradient else ()
        runs[preset] = Run((f"--model={preset}", "--max_minutes=3", *limits))
    return Study(_DEMO, "demo", "demo_alignment", runs)


STUDIES = {
    "multi30k_en_de": _multi30k("en", "de"),
    "multi30k_de_en": _multi30k("de", "en"),
    "multi30k_en_fr": _multi30k("en", "fr"),
    "multi30k_en_de_5000": _multi30k("en", "de")._replace(
        title="Multi30k, 5,000 pairs en-de, test_2016_flickr",
        results="methods/multi30k_en_de_5000",
        runs={**_methods(*_MULTI30K_5000), **_DEFAULT},
        pairs=5000,
    ),
    "europarl10k_methods": Study(
        "Europarl, 10,000 pairs de-en, test",
        *("europarl10k_de_en", "methods/europarl10k"),
        runs={
            **_methods(*_EUROPARL),
            **_DEFAULT,
            "recipe": Run(_EUROPARL_RECIPE, lexicon=True),
            "ensemble": Run(members="recipe", lexicon=True),
        },
        search=("--beam_size=5", "--tokenize=none", "--lowercase"),  # As in published results.
    ),
    # train.py has a recipe for it.
    "demo": Study(
        *(_DEMO, "demo", "methods/demo"),
        runs=_methods("--model=transformer_tiny", "--set=positions=sinusoidal"),
        search=("--beam_size=5",),
    ),
    "demo_alignment": _demo_alignment(),
}
