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
# # 1. Translation by counting
#
# In 1993, IBM's researchers asked a plain question of two long texts, the same debates in English and French: which word of one
# sentence does each word of the other come from? Nobody had marked the answer. Model 1 (Brown et al. 1993) finds it by counting.
#
# A target word $e_i$ comes from one source word $f_j$, each of the $n$ source words with the same probability, and then is chosen
# by a table $t$ of word translations:
#
# $$P(e \mid f) = \prod_i \sum_{j=1}^{n} \frac{1}{n}\, t(e_i \mid f_j)$$
#
# ![IBM Model 1 as a picture](../architectures/ibm1.svg)

# %%
import contextlib
import inspect
import os
from pathlib import Path

import nmt_zoo
from nmt_zoo.models.ibm import AlignmentModel

# %% [markdown]
# These lines of the project are the equation: `prior` is $1/n$, `self._translation` looks up $t(e_i \mid f_j)$, and the sum is over
# source positions.

# %%
print(inspect.getsource(AlignmentModel.score))

# %% [markdown]
# ## Five pairs of words
#
# "por qué" is "why", "por" is "for", "qué" is "what". That is the whole text.

# %%
sources = ["por qué", "por qué", "por qué", "por", "qué"]
targets = ["why", "why", "why", "for", "what"]
text = {"train_source": sources, "train_target": targets}
text |= {"valid_source": sources, "valid_target": targets}

# %% [markdown]
# Training starts from a table in which everything is equally probable. Each step counts, for every pair of sentences, how probable
# each link is under the present table (expectation), and makes the next table of these counts (maximisation). The same from a
# shell, with the text in files:
#
# ```
# python train.py --model=ibm1 --set smoothing=0 --max_steps=300 --train_source=q.es --train_target=q.en \
#     --valid_source=q.es --valid_target=q.en --model_dir=runs/tour/ibm1
# ```

# %%
place = Path("runs/tour/1")
plain = {"settings": {"smoothing": 0.0}, "max_steps": 300}
with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # 300 lines.
    model = nmt_zoo.train("ibm1", model_dir=place / "ibm1", data_dir="runs/tour/data", **plain, **text)

# %% [markdown]
# The table that it learnt: a row for each source word, a column for each target word.

# %%
import numpy as np

source, target = model.tokenizer.source, model.tokenizer.target
words, meanings = ["por", "qué", "</s>"], ["why", "for", "what", "</s>"]
ids = [[*source.encode(["por qué"])[0]]]
table = np.array(model.keras_model.translations(np.array(ids, np.int32)))[0]
columns = [target.encode([word])[0][0] if word != "</s>" else 3 for word in meanings]
print("       " + "".join(f"{word:>7}" for word in meanings))
for word, row in zip(words, table):
    print(f"{word:<7}" + "".join(f"{row[column]:7.2f}" for column in columns))

# %%
assert np.allclose(table[0, columns], [0.49, 0.33, 0, 0.18], atol=0.01)

# %% [markdown]
# ## The fault
#
# "por" is mostly "why": the three "por qué" outvote the one "por". So Model 1 translates all three as "why":

# %%
list(model.translate(["por qué", "por", "qué"]))

# %%
assert list(model.translate(["por", "qué"])) == ["why", "why"]

# %% [markdown]
# When Model 1 reads "por qué", it imagines a "why" that comes from "por", or a "why" that comes from "qué", and averages the two.
# It has no notion of a "why" that comes from both. [Page 4](4_averages.py) moves one sign in the equation, and mends it.
#
# ## What it is good for
#
# Aligning. On a text of some thousand sentences, the links are mostly right; `align.py` trains such models on any two files:
#
# ```
# python align.py --source=a.en --target=a.de --alignments=a.align
# ```

# %%
english = ["the dog runs", "the man runs", "a dog sees the man", "a man sees a dog"] * 20
german = ["der Hund läuft", "der Mann läuft", "ein Hund sieht den Mann", "ein Mann sieht einen Hund"] * 20
nmt_zoo.align(english, german, model="ibm1")[2]

# %% [markdown]
# ## Exercises
#
# **1.** The expectation step. A target word was written, and each source word may have caused it: how probable is each link? `table` has
# $t(e_i \mid f_j)$, a row for each target word and a column for each source word. Replace the `...` and run both cells; the second one
# trains Model 1 with your links, and says whether they are right.

# %% tags=["exercise"]
def links(table):
    """Returns the probability that target word i comes from source word j: [i, j], as `table`."""
    return ...

# %% tags=["check"]
found, expected = links(np.array([[0.3, 0.1], [0.2, 0.2]])), [[0.75, 0.25], [0.5, 0.5]]
if found is ...:
    print("not yet: the ... in `links` is still there")
elif np.shape(found) != (2, 2) or not np.allclose(found, expected):
    print(f"not yet: expected {expected}, found {np.array(found).tolist()}")
    print("The links of one target word, a row, add up to 1: it comes from some source word.")
else:
    pairs = [([0, 1], [0])] * 3 + [([0], [1]), ([1], [2])]  # por qué / why, por / for, qué / what
    mine = np.full([3, 2], 1 / 3)
    for _ in range(50):
        counts = np.zeros([3, 2])
        for f, e in pairs:
            counts[np.ix_(e, f)] += links(mine[np.ix_(e, f)])
        mine = counts / counts.sum(axis=0)  # Maximisation: the counts of each source word add up to 1.
    print("right: t(why | por) is", mine[0, 0].round(2), "and t(for | por) is", mine[1, 0].round(2))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def links(table):
#     return table / table.sum(axis=1, keepdims=True)
# ```
#
# </details>
#
# The numbers are larger than in the table above, in which `</s>` takes a part of every row.
#
# **2.** Add the pair "por / for" twice more to the text. How often does "por" have to stand alone until it is translated as "for"?
#
# **3.** Without `smoothing=0`, 2% of every row go to all words alike. What changes in the table? Why would one want that?
#
# <details><summary>Answers</summary>
#
# **2.** With one more, t(for | por) is above t(why | por) already: the expectation gives "why" of "por qué" more and more to "qué".
#
# **3.** Words that never stood together get a small probability, so that a sentence with an unseen pair of words is not impossible.
# Without it, the log-probability of such a sentence is minus infinity, and a perplexity cannot be computed.
#
# </details>
