# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 9. After 2017
#
# The network hardly changed. What changed is how much it reads before your text: other people's text, other languages, the sentence
# before.
#
# ## Several languages in one model
#
# Johnson et al. 2017 put a tag before the source that names the target language, and trained one model on all pairs. Here, German
# and a German that is read backwards:
#
# ```
# python train.py --train_source=a.en,a.en --train_target=a.de,a.back --target_languages=de,back ...
# python translate.py --model_dir=runs/x --target_language=back < in.en
# ```

# %%
from pathlib import Path

import nmt_zoo

place = Path("runs/tour/9")
place.mkdir(parents=True, exist_ok=True)
words = {"the": "der", "old": "alte", "dog": "Hund", "man": "Mann", "sees": "sieht", "runs": "läuft"}

# %%
import random

draw = random.Random(1)
for split, count in (("train", 800), ("valid", 40)):
    lines = [[draw.choice(list(words)) for _ in range(draw.randint(2, 6))] for _ in range(count)]
    there = [[words[word] for word in line] for line in lines]
    for name, some in (("en", lines), ("de", there), ("back", [line[::-1] for line in there])):
        text = "".join(f"{' '.join(line)}\n" for line in some)
        (place / f"{split}.{name}").write_text(text, encoding="utf-8")

text = {
    f"{split}_{side}": ",".join(str(place / f"{split}.{name}") for name in names)
    for split in ("train", "valid")
    for side, names in (("source", ("en", "en")), ("target", ("de", "back")))
}
small = {"num_encoder_layers": 2, "num_decoder_layers": 2, "width": 64, "ffn_width": 128, "dropout": 0.0}
common = {"data_dir": "runs/tour/data", "settings": small, "num_pieces": 300, "max_minutes": 1.5}
nmt_zoo.train(
    "transformer_tiny", model_dir=place / "two", target_languages="de,back", **text, **common
)

# %%
for language in ("de", "back"):
    model = nmt_zoo.load(place / "two", target_language=language)
    print(language, list(model.translate(["the old man sees the dog"])))

# %% [markdown]
# Validation printed the scores of each. Asked for a pair that it never saw together, such a model can often do it (zero-shot); how
# well is measured in [languages](../languages.md).
#
# ## Documents
#
# "It barks." What barks? With `context_sentences=1`, a source line is read after the one before it:

# %%
sources, targets = [], []
for _ in range(1500):
    animal, its, pronoun = draw.choice([("dog", "der Hund", "er"), ("cat", "die Katze", "sie")])
    sources += [f"the {animal} runs .", "it sees me .", ""]
    targets += [f"{its} läuft .", f"{pronoun} sieht mich .", ""]
model = nmt_zoo.train(
    "transformer_tiny",
    model_dir=place / "document",
    context_sentences=1,
    train_source=sources,
    train_target=targets,
    valid_source=sources[:150],
    valid_target=targets[:150],
    **common,
)

# %%
for animal in ("dog", "cat"):
    print(model.translate(f"the {animal} runs .\nit sees me .")[0], "\n")

# %%
assert model.translate("the dog runs .\nit sees me .")[0].endswith("er sieht mich .")
assert model.translate("the cat runs .\nit sees me .")[0].endswith("sie sieht mich .")

# %% [markdown]
# What the model looks at while it writes "sie": the words before `>>context<<`.

# %%
model.attention("the cat runs . >>context<< it sees me .")

# %% [markdown]
# ## Models that others have trained
#
# The weights of public models are read into the Transformer of page 8, and everything works on them. Downloads are some 300 MB, so
# this is not run here:
#
# ```
# python import_model.py --model=Helsinki-NLP/opus-mt-en-de --model_dir=runs/en-de
# echo "It's raining cats and dogs." | python translate.py --model_dir=runs/en-de
# python train.py --init_from=runs/en-de --train_source=a.en --train_target=a.de --model_dir=runs/own ...
# ```
#
# ## Exercises
#
# **1.** What a model reads with `context_sentences=1`. An empty line ends a document, and no sentence sees a sentence of another
# document. Write the source lines that the model gets, without the empty ones.

# %% tags=["exercise"]
def with_context(lines):
    """Returns each sentence after the one before it and `>>context<<`; the first one of a document alone."""
    return ...

# %% tags=["check"]
found = with_context(["the cat runs .", "it sees me .", "it sleeps .", "", "the dog runs ."])
expected = [
    "the cat runs .",
    "the cat runs . >>context<< it sees me .",
    "it sees me . >>context<< it sleeps .",
    "the dog runs .",
]
if found is ...:
    print("not yet: the ... in `with_context` is still there")
elif not isinstance(found, list) or len(found) != len(expected):
    print(f"not yet: expected a list of {len(expected)} lines, one for each sentence; found {found}")
elif found != expected:
    number, one, right = next((n, a, b) for n, (a, b) in enumerate(zip(found, expected), 1) if a != b)
    print(f"not yet: expected in line {number} {right!r}, found {one!r}")
else:
    print("right:", *found, sep="\n")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def with_context(lines):
#     pairs = zip(["", *lines], lines)
#     return [f"{before} >>context<< {line}" if before else line for before, line in pairs if line]
# ```
#
# </details>
#
# **2.** Translate "it sees me ." alone, and twice in a row as one text of two lines. What should the model write, and what does it?
#
# **3.** A model of English to German and French to English is asked for French to German. What could go wrong?
#
# <details><summary>Answers</summary>
#
# **2.** There is no right answer without an animal; it writes what is more frequent, or what is left from the line before.
#
# **3.** It has never been asked for German from a French source, and may write English: the tag is one token against all its habits.
#
# </details>
