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
# # 6. Attention: look again
#
# Bahdanau, Cho and Bengio 2015 let the decoder look at all states $m_j$ of the encoder whenever it writes a word. Its own state asks,
# the encoder's states answer:
#
# $$a_{ij} = \mathrm{softmax}_j\, \mathrm{score}(h_i, m_j) \qquad c_i = \sum_j a_{ij}\, m_j \qquad o_i = \tanh(W\,[c_i; h_i])$$
#
# This is [page 4](4_averages.py) again: an average of vectors inside a softmax. The weights no longer depend on positions, but on
# what stands there. Luong et al. 2015 tried several scores, $h^\top m$, $h^\top W m$; Bahdanau's was $v^\top \tanh(Uh + Vm)$.
#
# ![An LSTM with attention as a picture](../architectures/lstm_luong.svg)

# %%
import inspect
from pathlib import Path

import nmt_zoo
from nmt_zoo.models.layers.attention_scores import SourceAttention

place = Path("runs/tour/6")
print(inspect.getsource(SourceAttention.scores))
print(inspect.getsource(SourceAttention.call))

# %% [markdown]
# ## Learning to align without being told
#
# English, and German whose verb goes to the end of a clause with "dass":

# %%
import random

nouns = {"dog": "Hund", "man": "Mann", "bird": "Vogel", "king": "König", "wolf": "Wolf"}
verbs = {"sees": "sieht", "hears": "hört", "loves": "liebt", "finds": "findet", "knows": "kennt"}
kinds = {"old": "alte", "small": "kleine", "red": "rote", "wise": "weise"}
heads = {"we think": "wir denken", "they say": "sie sagen", "you know": "du weißt"}
draw = random.Random(1)


def pair():
    """Returns a sentence and its translation."""
    one, other = draw.choice(list(nouns)), draw.choice(list(nouns))
    verb, kind, head = (draw.choice(list(some)) for some in (verbs, kinds, heads))
    source, target = f"the {kind} {one} {verb} the {other}", f"der {kinds[kind]} {nouns[one]}"
    if draw.random() < 0.5:
        return source, f"{target} {verbs[verb]} den {nouns[other]}"
    return f"{head} that {source}", f"{heads[head]} dass {target} den {nouns[other]} {verbs[verb]}"


sources, targets = map(list, zip(*(pair() for _ in range(3000))))
text = {"train_source": sources[:2900], "train_target": targets[:2900], "tokenizer": "word"}
text |= {"valid_source": sources[2900:], "valid_target": targets[2900:], "data_dir": "runs/tour/data"}
model = nmt_zoo.train(
    "lstm_luong", model_dir=place / "luong", max_minutes=1.5, learning_rate=0.005, **text
)

# %%
model.translate(["we think that the old man loves the bird", "the red king finds the wolf"])

# %%
assert model.translate(["they say that the wise wolf hears the dog"])[0].endswith("den Hund hört")

# %% [markdown]
# Which source words did the model look at while it wrote each word? Nobody told it where to look; the weights are a by-product of
# predicting the next word. As a picture, a row for each word written:

# %%
model.attention("we think that the old man loves the bird")

# %% [markdown]
# Links taken from the attention, and those of a hidden Markov model with fertilities that counted the same text. Attention does not
# always look where the word came from: it looks for what it needs to know.

# %%
source = "we think that the old man loves the bird"
target = model.translate(source)[0]
print(target)
print(model.align([source], [target])[0])
print(nmt_zoo.align([*sources, source], [*targets, target])[-1])

# %% [markdown]
# ## Decoding
#
# At each step the model gives a probability to each next word. Taking the best one each time (greedy search) may end in a corner;
# beam search keeps the best few hypotheses. A longer translation has a smaller probability, so a score is the mean of the
# log-probabilities of its words.

# %%
for beam_size in (1, 4, 16):
    found = model.translate([source], beam_size=beam_size)
    print(beam_size, round(found.scores[0], 3), found[0])

# %% [markdown]
# ## Exercises
#
# **1.** Attention in two lines. `query` is the decoder's state, `states` has a row for each source word, and the score is their product,
# $h^\top m$. Return the weights of the source words and the context, the average of the states with these weights.

# %% tags=["exercise"]
import numpy as np


def softmax(scores):
    """Returns probabilities along the last axis."""
    powers = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def attend(query, states):
    """Returns (weights, context): a weight for each row of `states`, and a vector like `query`."""
    return ...

# %% tags=["check"]
states = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
found = attend(np.array([2.0, 0.0]), states)
expected = [0.468, 0.063, 0.468], [0.937, 0.532]
if found is ...:
    print("not yet: the ... in `attend` is still there")
elif not isinstance(found, tuple) or [*map(np.shape, found)] != [(3,), (2,)]:
    print(f"not yet: expected a pair of 3 weights and 2 numbers of the context, found {found}")
elif not all(np.allclose(one, right, atol=1e-3) for one, right in zip(found, expected)):
    print(f"not yet: expected {expected}, found {tuple(np.round(one, 3).tolist() for one in found)}")
    print("The weights are a softmax of the scores, and add up to 1.")
else:
    sure, _ = attend(np.array([20.0, 0.0]), states[:2])
    print("right; a query ten times as long looks at one word alone:", sure.round(3))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def attend(query, states):
#     weights = softmax(states @ query)
#     return weights, weights @ states
# ```
#
# </details>
#
# **2.** The row of `</s>`: where does the model look when it decides to stop?
#
# **3.** Where does the row of the verb at the end look, and why not on the diagonal?
#
# <details><summary>Answers</summary>
#
# **2.** At `</s>`, or at the last word: a translation is complete when the source is.
#
# **3.** At the English verb in the middle of the clause, or beside it: attention jumps where words were moved.
#
# </details>
