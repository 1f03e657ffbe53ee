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
# # 5. A network that reads, and forgets
#
# So far each target word was chosen without looking at the words before it: "the river river" was as good as "the river Jordan". A
# recurrent network has a state that it changes with every word it reads, and with every word it writes:
#
# $$h_t = \tanh(W x_t + U h_{t-1} + b)$$
#
# Its gradient passes through as many products as there are words, and vanishes or explodes. The LSTM (Hochreiter and Schmidhuber
# 1997) adds a line of memory $c$ that is only added to, and three gates between 0 and 1 that decide what is forgotten, written and
# shown:
#
# $$c_t = f_t \odot c_{t-1} + i_t \odot \tanh(\dots) \qquad h_t = o_t \odot \tanh(c_t)$$

# %%
import inspect
from pathlib import Path

import nmt_zoo
from nmt_zoo.models.layers.recurrent import LSTMCell

place = Path("runs/tour/5")
print(inspect.getsource(LSTMCell.gate))

# %% [markdown]
# ## The bottleneck
#
# Sutskever et al. 2014 let one LSTM read the sentence, and a second one write the translation, starting from the last state of the
# first. One vector holds the whole sentence. It worked, and surprised everybody; with long sentences, it did not. The task here is
# only to copy words in reverse order, sentences of 2 to 24 words.

# %%
import random

letters = "abcdefghijklmnopqrstuvwxyz"
draw = random.Random(1)


def pairs(count):
    """Returns lines of random letters, and the same lines backwards."""
    lines = [[draw.choice(letters) for _ in range(draw.randint(2, 24))] for _ in range(count)]
    return [" ".join(line) for line in lines], [" ".join(line[::-1]) for line in lines]


train, valid = pairs(4000), pairs(200)
text = {"train_source": train[0], "train_target": train[1]}
text |= {"valid_source": valid[0], "valid_target": valid[1], "tokenizer": "word"}
limits = {"max_minutes": 2, "learning_rate": 0.005}
bottleneck = nmt_zoo.train("lstm_seq2seq", model_dir=place / "seq2seq", data_dir="runs/tour/data", **limits, **text)
attention = nmt_zoo.train("lstm_luong", model_dir=place / "luong", data_dir="runs/tour/data", **limits, **text)

# %%
def right(model, length):
    """Returns the share of words that a model puts into the right place."""
    lines = [[draw.choice(letters) for _ in range(length)] for _ in range(60)]
    found = model.translate([" ".join(line) for line in lines], beam_size=1)
    pairs = ((line[::-1], one.split()) for line, one in zip(lines, found))
    return sum(a == b for line, one in pairs for a, b in zip(line, one)) / (60 * length)


print("words   one vector   attention")
for length in (4, 8, 12, 16, 20, 24):
    print(f"{length:5} {right(bottleneck, length):11.0%} {right(attention, length):11.0%}")

# %% [markdown]
# The longer the sentence, the more the one vector must hold. The second model is the same network with one addition, which is the
# next page.
#
# ## Exercises
#
# **1.** One step of the memory. The gates `forget`, `write` and `show` have a number between 0 and 1 for each unit, and `new` is what is
# inside the tanh of the equation for $c_t$.

# %% tags=["exercise"]
import numpy as np


def lstm_step(memory, forget, write, show, new):
    """Returns the memory c and the state h after a word, as a pair."""
    return ...

# %% tags=["check"]
memory = np.array([1.0, -0.5])
found = lstm_step(memory, np.array([0.9, 0.0]), np.array([0.2, 1.0]), np.array([1.0, 0.5]), np.array([2.0, 1.0]))
expected = [[1.093, 0.762], [0.798, 0.321]]
if found is ...:
    print("not yet: the ... in `lstm_step` is still there")
elif np.shape(found) != (2, 2) or not np.allclose(found, expected, atol=1e-3):
    print(f"not yet: expected c and h {expected}, found {np.round(found, 3).tolist()}")
    print("Is there a tanh around `new`, and another one around the new memory in h?")
else:
    for _ in range(100):  # The gates forget nothing and write nothing.
        memory, state = lstm_step(memory, 1.0, 0.0, 1.0, 5.0)
    print("right, and after 100 more words the memory is still", memory)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def lstm_step(memory, forget, write, show, new):
#     memory = forget * memory + write * np.tanh(new)
#     return memory, show * np.tanh(memory)
# ```
#
# </details>
#
# **2.** What would the first column look like if the task was to copy in the same order? (`reverse_source` of `lstm_seq2seq` is what
# Sutskever et al. did about this.)
#
# **3.** Give the bottleneck ten times as many units (`settings={"encoder_units": 512, "decoder_units": 1024}`). Does the fault go away?
#
# <details><summary>Answers</summary>
#
# **2.** Then the first word written is the one that was read longest ago. Reading the source backwards makes the first words near again,
# at the price of the last ones.
#
# **3.** It moves to longer sentences, and training takes longer. The number of things to remember grows with the sentence, the vector
# does not.
#
# </details>
