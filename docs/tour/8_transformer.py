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
# # 8. The Transformer
#
# Everything is there now; it only has to be stacked (Vaswani et al. 2017). A layer of the encoder is self-attention of several heads
# and then a small network for each word by itself, each with a bypass and a normalisation:
#
# $$x \leftarrow x + \mathrm{SelfAttention}(\mathrm{norm}(x)) \qquad x \leftarrow x + W_2\,\mathrm{relu}(W_1\,\mathrm{norm}(x))$$
#
# A layer of the decoder has masked self-attention, attention to the encoder's output as on page 6, and the small network. (The paper
# normalises after adding; most models since do it before, which trains more easily. `norm=post` is the paper.)
#
# ![The Transformer as a picture](../architectures/transformer_base.svg)

# %%
import inspect
from pathlib import Path

import nmt_zoo
from nmt_zoo.models.layers import transformer_layers as layers

place = Path("runs/tour/8")
for part in (
    layers.Residual,
    layers.TransformerLayer.through,
    layers.EncoderLayer.call,
    layers.DecoderLayer.call,
):
    print(inspect.getsource(part))

# %% [markdown]
# These are Keras layers, which a program of your own can use:

# %%
import numpy as np

from nmt_zoo.models import preset_settings

settings = preset_settings("transformer_base", width=32, num_heads=4, ffn_width=64)
encoder = layers.Encoder(settings, num_layers=2)
mask = np.ones([1, 5], bool)
encoder(np.ones([1, 5, 32], np.float32), mask)[0].shape

# %% [markdown]
# ## Train one
#
# `train.py` without a word chooses the model and its settings for the size of the text; here `transformer_tiny` for three minutes on
# the included corpus.
#
# ```
# python train.py --max_minutes=3 --model_dir=runs/tour/8/transformer
# ```

# %%
model = nmt_zoo.train(
    "transformer_tiny", model_dir=place / "transformer", data_dir="runs/tour/data", max_minutes=3
)

# %%
model.translate(["We believe that the old man is happy.", "The small dog sees a bird."])

# %% [markdown]
# What its heads look at. A layer has several; some follow the words, some look at the end of the sentence, where they find nothing:

# %%
attention = model.attention("We believe that the old man is happy.")
sorted(attention.maps)

# %%
attention

# %% [markdown]
# A page to explore every layer and head, offline, from a shell: `python visualize_attention.py --model_dir=runs/tour/8/transformer
# --source="We believe that the old man is happy." --output=page.html`.
#
# ## Against the others
#
# BLEU and chrF compare translations with a human's, on text that was not seen in training. Where does a system fail? `compare.py`
# puts Model 2 of page 2, phrases of page 3 and the Transformer side by side: by the length of sentences, by how often a word was
# seen, by words that were dropped or said twice; and it says which differences could be chance.

# %%
from nmt_zoo.command_line.calls import call

demo = Path("runs/tour/data/demo")
outputs = {"Transformer": place / "test.de"}
call("translate", model_dir=place / "transformer", input=demo / "test.en", output=place / "test.de")
for name in ("ibm2", "phrase_based"):
    other = nmt_zoo.train(name, model_dir=place / name, data_dir="runs/tour/data")
    outputs[name] = place / f"{name}.de"
    call("translate", model_dir=place / name, input=demo / "test.en", output=outputs[name])

# %%
call(
    "compare",
    source=demo / "test.en",
    reference=demo / "test.de",
    outputs=",".join(map(str, outputs.values())),
    names=",".join(outputs),
    train_source=demo / "train.en",
    train_target=demo / "train.de",
    examples=3,
    page=place / "compare.html",
)

# %% [markdown]
# The page has all sentences, and orders them by the difference of two systems. It is one file that needs no network:

# %%
import html

from IPython.display import HTML

page = html.escape((place / "compare.html").read_text(encoding="utf-8"))
HTML(f'<p><iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 1px solid #888"></iframe></p>')

# %% [markdown]
# ## Put it behind a server
#
# A SavedModel takes text and gives text, with its tokenizer inside; TensorFlow Serving runs it without Python. The export is checked
# in a fresh process: it must translate as the model does.

# %%
model.export(place / "export")

# %% [markdown]
# ## Exercises
#
# **1.** Every part of a layer is put together in the same way. `network` is self-attention, or the small network. Write the bypass
# and the normalisation as in the equations at the top of this page.

# %% tags=["exercise"]
def sublayer(x, network, norm):
    """Returns x after one part of a layer, normalised before the part (pre-norm)."""
    return ...

# %% tags=["check"]
def norm(x):
    """Returns vectors with mean 0 and variance 1."""
    return (x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True)


x = np.array([[1.0, 2.0, 6.0]])
found, expected = sublayer(x, lambda y: 10 * y, norm), x + 10 * np.array([[-0.926, -0.463, 1.389]])
if found is ...:
    print("not yet: the ... in `sublayer` is still there")
elif np.shape(found) == (1, 3) and np.allclose(found, norm(11 * x)):
    print(f"not yet: expected {expected.tolist()}, found {found.tolist()}: this is post-norm, as in the paper")
elif np.shape(found) != (1, 3) or not np.allclose(found, expected, atol=0.01):
    print(f"not yet: expected {expected.tolist()}, found {np.array(found).tolist()}")
    print("Does x itself go past the network, without being normalised?")
else:
    deep = x
    for _ in range(100):  # A network that has learnt nothing yet does no harm.
        deep = sublayer(deep, lambda y: 0 * y, norm)
    print("right; after 100 parts that return 0, x is still", deep)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def sublayer(x, network, norm):
#     return x + network(norm(x))
# ```
#
# </details>
#
# **2.** Train again with `settings={"positions": "sinusoidal"}`, and with `settings={"norm": "post"}`. Which of the three is ahead after one
# minute?
#
# **3.** Which part of the model has most parameters here, and in `transformer_base`?
#
# <details><summary>Answers</summary>
#
# **2.** Usually rotary positions, which were chosen above, then sinusoids, then post-norm, which needs a longer warm-up.
#
# **3.** The embeddings of a tiny model; in the base model with 37,000 pieces, 19 million of 63 million are embeddings, and the
# feed-forward networks have 25 million.
#
# </details>
