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
# # 2. Where words go, and what they sound like
#
# Model 1 does not care about order: "dog bites man" is as good as "man bites dog". Two things were added in 1993 and 1996.
#
# **Positions.** Model 2 learns a table $a(j \mid i, n)$: from which position a word comes. The hidden Markov model (Vogel et al.
# 1996) learns jumps instead: a word mostly comes from just behind where the last one came from.
#
# $$P(e, a \mid f) = \prod_i a(a_i \mid i, n)\; t(e_i \mid f_{a_i}) \qquad\qquad P(e, a \mid f) = \prod_i c(a_i - a_{i-1})\; t(e_i \mid f_{a_i})$$
#
# **A language model.** By Bayes' rule, the best English sentence for a French one is
#
# $$\arg\max_e P(e \mid f) = \arg\max_e P(f \mid e)\, P(e)$$
#
# A model that translates in the other direction, the channel, says whether e can mean f. A model of English alone says whether e
# is English. The second needs no translations to learn from.

# %%
import inspect
from pathlib import Path

import nmt_zoo
from nmt_zoo.models.layers.source_positions import PositionTable

place = Path("runs/tour/2")

# %%
print(inspect.getsource(PositionTable.prior))

# %% [markdown]
# ## A text with another order
#
# An invented language that puts the verb last and the adjective behind its noun.

# %%
import random

nouns = {"dog": "Hund", "man": "Mann", "bird": "Vogel", "child": "Kind"}
verbs = {"sees": "sieht", "hears": "hört", "bites": "beißt", "likes": "mag"}
kinds = {"old": "alt", "small": "klein", "red": "rot"}
draw = random.Random(1)


def pair():
    """Returns a sentence and its translation."""
    parts = [(draw.choice(list(nouns)), draw.choice([*kinds, ""])) for _ in range(2)]
    verb = draw.choice(list(verbs))
    phrases = [f"the {kind} {noun}".replace("  ", " ") for noun, kind in parts]
    others = [f"{nouns[noun]} {kinds.get(kind, '')}".strip() for noun, kind in parts]
    return f"{phrases[0]} {verb} {phrases[1]}", f"{others[0]} {others[1]} {verbs[verb]}"


sources, targets = zip(*(pair() for _ in range(600)))
print(sources[0], "|", targets[0])

# %% [markdown]
# Three models on the same text, and how well each predicts it (perplexity of validation: lower is better). `ibm2` and
# `hmm_alignment` know more about order, and so are less surprised.

# %%
text = {"train_source": list(sources[:500]), "train_target": list(targets[:500])}
text |= {"valid_source": list(sources[500:]), "valid_target": list(targets[500:])}
models = {
    name: nmt_zoo.train(name, model_dir=place / name, data_dir="runs/tour/data", **text)
    for name in ("ibm1", "ibm2", "hmm_alignment")
}

# %%
import numpy as np


def log_prob(model, source, target):
    """Returns log P(e | f), by the equations above."""
    sides = zip(model.tokenizer[1:], (source, target))
    return float(np.sum(model.keras_model.score(*(np.array(v.encode([s]), "int32") for v, s in sides))))


for name, model in models.items():
    right = log_prob(model, "the dog bites the man", "Hund Mann beißt")
    wrong = log_prob(model, "the dog bites the man", "Mann Hund beißt")
    print(f"{name:<15} right order {right:6.2f}   wrong order {wrong:6.2f}")

# %% [markdown]
# Model 1 gives both orders the same probability; the others prefer the right one.

# %%
orders = "Hund Mann beißt", "Mann Hund beißt"
scores = [log_prob(models["ibm1"], "the dog bites the man", order) for order in orders]
assert abs(scores[0] - scores[1]) < 1e-4
models["ibm2"].align(["the old dog bites the man"], ["Hund alt Mann beißt"])

# %% [markdown]
# ## The noisy channel
#
# We need a channel from German to English, `ibm1` trained with exchanged sides, and a language model of German, `ngram_lm`, which
# is counted in one pass (modified Kneser-Ney).
#
# ```
# python train.py --model=ibm1 --train_source=a.de --train_target=a.en ... --model_dir=runs/channel
# python train.py --model=ngram_lm --train_target=a.de ... --vocab_file=runs/channel/tokenizer/source.vocab --model_dir=runs/lm
# python translate.py --channel_model=runs/channel --language_model=runs/lm < in.en > out.de
# ```

# %%
turned = {
    "train_source": text["train_target"],
    "train_target": text["train_source"],
    "valid_source": text["valid_target"],
    "valid_target": text["valid_source"],
}
nmt_zoo.train("ibm1", model_dir=place / "channel", data_dir="runs/tour/data", **turned)
nmt_zoo.train(
    "ngram_lm",
    model_dir=place / "lm",
    data_dir="runs/tour/data",
    train_target=text["train_target"],
    valid_target=text["valid_target"],
    vocab_file=place / "channel/tokenizer/source.vocab",
)

# %%
from nmt_zoo.command_line.calls import call

(place / "in.en").write_text("the dog bites the old man\nthe bird likes the child\n")
call(
    "translate",
    channel_model=place / "channel",
    language_model=place / "lm",
    input=place / "in.en",
    output=place / "out.de",
)
print((place / "out.de").read_text())

# %% [markdown]
# The channel knows which words, and the language model puts the verb at the end and an adjective behind a noun. But behind which
# noun? "Hund alt Mann beißt" is as good German as "Hund Mann alt beißt". Who is old is lost, because the words of the channel have
# no order: that needs the positions of Model 2, or the phrases of the next page.
#
# ## Exercises
#
# 1. Which model would translate "the red bird sees the small red dog" best, and why?
# 2. `--language_model_weight=0` leaves the language model out of `translate.py --channel_model`. What do you expect?
#
# <details><summary>Answers</summary>
#
# 1. None of them well: longer sentences are rare in the text, and Model 2's table has a row for each length. The HMM generalises,
# because a jump of one is the same everywhere.
# 2. The channel finds words that explain the source, in any order: the verb may come first, as in English.
#
# </details>
