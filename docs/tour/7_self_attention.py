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
# # 7. Self-attention
#
# If attention can find the right word of the source, why not let each word find what it needs in its own sentence, and leave the
# recurrence out? All words are then read at the same time, which processors like. A query, a key and a value are made of each
# word, by three matrices (Vaswani et al. 2017):
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\Big(\frac{Q K^\top}{\sqrt{d}}\Big)\, V$$

# %%
import inspect
from pathlib import Path

import keras
import numpy as np

import nmt_zoo
from nmt_zoo.models.layers.attention import ScaledDotProductAttention

place = Path("runs/tour/7")
for method in ("call", "scores", "average"):
    print(inspect.getsource(getattr(ScaledDotProductAttention, method)))

# %% [markdown]
# ## Why divide by the root of d
#
# The product of two random vectors of $d$ numbers has a standard deviation of $\sqrt d$. Large scores make the softmax choose one
# word and ignore all others, and then its gradient is nearly 0.

# %%
draw = np.random.default_rng(1)
for width in (4, 64, 1024):
    query, keys = draw.normal(size=(1, 1, width)), draw.normal(size=(1, 10, width))
    for scaled in (True, False):
        _, weights = ScaledDotProductAttention(scaled=scaled)(*map(np.float32, (query, keys, keys)))
        print(f"d={width:<5} scaled={scaled!s:<6} largest weight {float(np.max(weights)):.2f}")

# %% [markdown]
# ## "dog bites man"
#
# Attention is an average over a set: it does not know which word came first. Without positions, both sentences are the same to an
# encoder. With sinusoids added to the words, they are not.

# %%
from nmt_zoo import models

ids = {"dog bites man": [[5, 6, 7, 3]], "man bites dog": [[7, 6, 5, 3]]}
for positions in ("none", "sinusoidal"):
    keras.utils.set_random_seed(1)
    model = models.create("transformer_tiny", 10, 10, positions=positions, dropout=0.0)
    # What the decoder will look at: values of each head and word, [1, heads, words, width of a head].
    values = [np.array(model.encode(np.array(row, np.int32))["cross_values"][0]) for row in ids.values()]
    means = [np.mean(each, axis=2) for each in values]
    print(f"{positions:<12} difference between the sentences {np.max(np.abs(means[0] - means[1])):.4f}")
    assert (np.max(np.abs(means[0] - means[1])) < 1e-5) == (positions == "none")

# %% [markdown]
# The same in training: a task in which order is all, copying backwards, with and without positions.
#
# ```
# python train.py --model=transformer_tiny --set positions=none ...
# ```

# %%
import random

letters, dice = "abcdefgh", random.Random(1)


def pairs(count):
    """Returns lines of random letters, and the same lines backwards."""
    lines = [[dice.choice(letters) for _ in range(dice.randint(2, 8))] for _ in range(count)]
    return [" ".join(line) for line in lines], [" ".join(line[::-1]) for line in lines]


train, valid = pairs(3000), pairs(100)
text = {"train_source": train[0], "train_target": train[1], "tokenizer": "word"}
text |= {"valid_source": valid[0], "valid_target": valid[1]}
small = {"num_encoder_layers": 2, "num_decoder_layers": 2, "width": 64, "ffn_width": 128, "dropout": 0.0}
limits = {"max_minutes": 1.5, "learning_rate": 0.003, "data_dir": "runs/tour/data"}
for positions in ("none", "sinusoidal"):
    found = nmt_zoo.train(
        "transformer_tiny",
        model_dir=place / positions,
        settings={**small, "positions": positions},
        **limits,
        **text,
    )
    print("\n", positions, list(found.translate(["a b c d", "d c b a"])), "\n")

# %% [markdown]
# The decoder knows what it wrote, so that even without positions it never gets quite lost; but it cannot know the order of what it
# read.
#
# ## Heads and masks
#
# One average can look at one thing. So each layer has several *heads* with matrices of their own, each in a part of the width. And
# the decoder must not see the words it is to predict: a mask hides everything to the right.

# %%
from nmt_zoo.models.layers.attention import MultiHeadAttention
from nmt_zoo.models.layers.masks import causal_mask

print(np.array(causal_mask(5))[0, 0].astype(int))
print(inspect.getsource(MultiHeadAttention.call))

# %% [markdown]
# ## Exercises
#
# **1.** Self-attention of a decoder: the product of queries and keys, divided by the root of $d$, without the words to the right. Replace
# the `...` by the masked scores: where `mask` is `False`, a score must be so small that its weight becomes 0.

# %% tags=["exercise"]
def softmax(scores):
    """Returns probabilities along the last axis."""
    powers = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def masked_scores(queries, keys, mask):
    """Returns the score of word k for word i, [i, k]; all have [words, d], and `mask` has [i, k]."""
    return ...

# %% tags=["check"]
draw = np.random.default_rng(2)
queries, keys, values = draw.normal(size=(3, 4, 16)) * 2
mask = np.tril(np.ones([4, 4], bool))  # As of `causal_mask`.
found = masked_scores(queries, keys, mask)
if found is ...:
    print("not yet: the ... in `masked_scores` is still there")
elif np.shape(found) != (4, 4):
    print(f"not yet: expected a score for each pair of 4 words, found the shape {np.shape(found)}")
elif (later := softmax(found)[~mask].max()) > 1e-6:
    print(f"not yet: expected the weight 0 for words to the right, found up to {later:.3f}")
elif not np.allclose(np.array(found)[1, :2], [6.743, 2.637], atol=1e-3):
    print(f"not yet: expected [6.743, 2.637] for the second word, found {np.array(found)[1, :2].round(3)}")
    print("Is the product divided by the root of d? Are queries in rows and keys in columns?")
else:
    print("right; the weights:", softmax(found).round(2), sep="\n")

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def masked_scores(queries, keys, mask):
#     return np.where(mask, queries @ keys.T / np.sqrt(queries.shape[-1]), -1e9)
# ```
#
# </details>
#
# **2.** How many products does self-attention take for a sentence of n words of width d, and recurrence? When is which cheaper?
#
# **3.** What does a decoder without its mask learn?
#
# <details><summary>Answers</summary>
#
# **2.** n² d against n d²: attention is cheaper where sentences are shorter than vectors. More important: the n² are done at once, the n
# steps of recurrence one after the other.
#
# **3.** To copy the next word from its own input. The loss falls to 0, and the first translation is nonsense, because there is no next
# word to copy.
#
# </details>
