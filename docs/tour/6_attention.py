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
# The included corpus: 5,000 English sentences and their German translations, with verbs at the end of clauses. About two minutes:
#
# ```
# python train.py --model=lstm_luong --max_minutes=2 --model_dir=runs/tour/6/luong
# ```

# %%
model = nmt_zoo.train("lstm_luong", model_dir=place / "luong", data_dir="runs/tour/data", max_minutes=2)

# %%
model.translate(["We believe that the old man is happy .", "The small dog sees a bird ."])

# %% [markdown]
# Point at a word of a translation: it shows the source words it came from. Nobody told the model about them; the weights are a
# by-product of predicting the next word. As a picture, a row for each word written:

# %%
model.attention("We believe that the old man is happy .")

# %% [markdown]
# Compare it with links that the models of page 1 and 2 find on the same text:

# %%
source = "We believe that the old man is happy ."
target = model.translate(source)[0]
print(target)
model.align([source], [target])

# %% [markdown]
# ## Decoding
#
# At each step the model gives a probability to each next word. Taking the best one each time (greedy search) may end in a corner;
# beam search keeps the best few hypotheses. A longer translation has a smaller probability, so scores are divided by a length
# penalty (Wu et al. 2016).

# %%
for beam_size in (1, 4, 16):
    found = model.translate([source], beam_size=beam_size)
    print(beam_size, round(found.scores[0], 3), found[0])

# %% [markdown]
# ## Exercises
#
# 1. The row of `</s>`: where does the model look when it decides to stop?
# 2. Why does the attention of "glücklich" or the verb at the end not lie on the diagonal?
#
# <details><summary>Answers</summary>
#
# 1. At the full stop or at `</s>` of the source: a translation is complete when the source is.
# 2. The German verb stands at the end of the clause, the English one in the middle; attention jumps where words were moved.
#
# </details>
