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
channel = nmt_zoo.train("ibm1", model_dir=place / "channel", data_dir="runs/tour/data", **turned)
language_model = nmt_zoo.train(
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
# **1.** The hidden Markov model adds up the probabilities of all ways to link a sentence. Three source words and ten target words have
# $3^{10}$ ways, but the sum needs only one pass from left to right. `before[j]` is the probability of the target words so far if the
# last one came from source word j; `jumps[j, k]` is the probability of a jump from j to k, and `word[k]` that of the next target word if
# it comes from k. What is `before` after that word?

# %% tags=["exercise"]
def step(before, jumps, word):
    """Returns the probability of the target words with the next one, if that comes from k: [k]."""
    return ...

# %% tags=["check"]
import itertools

dice = np.random.default_rng(1)
start, jumps, words = (dice.dirichlet(np.ones(3), size) for size in (None, 3, 4))
expected = 0.0
for path in itertools.product(range(3), repeat=4):  # All ways, one by one.
    moves = np.prod([jumps[j, k] for j, k in itertools.pairwise(path)])
    expected += start[path[0]] * moves * np.prod([words[i, j] for i, j in enumerate(path)])
found = start * words[0]
for word in words[1:]:
    found = ... if found is ... else step(found, jumps, word)
if found is ...:
    print("not yet: the ... in `step` is still there")
elif np.shape(found) != (3,):
    print(f"not yet: expected a number for each of 3 source words, found the shape {np.shape(found)}")
elif not np.isclose(np.sum(found), expected):
    print(f"not yet: expected {expected:.6f} for all {3**4} ways, found {np.sum(found):.6f}")
    print("Add up over the word that the jump comes from, j; then multiply by the word at k.")
else:
    print(f"right: {expected:.6f}, with 3 steps instead of {3**4} ways")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def step(before, jumps, word):
#     return (before @ jumps) * word
# ```
#
# </details>
#
# **2.** Which model would translate "the red bird sees the small red dog" best, and why?
#
# **3.** `--language_model_weight=0` leaves the language model out of `translate.py --channel_model`. What do you expect?
#
# <details><summary>Answers</summary>
#
# **2.** None of them well: longer sentences are rare in the text, and Model 2's table has a row for each length. The HMM generalises,
# because a jump of one is the same everywhere.
#
# **3.** The channel finds words that explain the source, in any order: the verb may come first, as in English.
#
# </details>
