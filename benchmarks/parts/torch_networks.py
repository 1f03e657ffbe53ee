"""The presets `lstm_luong` and `transformer_*` as one would write them in PyTorch, to compare.

Only `decode.py`, `recurrent_speed.py` and `step_time.py` use this file; they need `pip install
torch`.
"""

import math
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import rnn

PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)
LONGEST = 1024  # Number of positions of the Transformer.


class LuongModel(nn.Module):
    """A bidirectional LSTM encoder and an LSTM decoder with input feeding; Luong et al. 2015.

    Args:
        source_vocab_size: number of source ids.
        target_vocab_size: number of target ids.
        settings: settings of the preset; this network uses its sizes and rates.
    """

    def __init__(self, source_vocab_size, target_vocab_size, settings):
        super().__init__()
        width, units = settings["embedding_width"], settings["decoder_units"]
        memory_width = 2 * settings["encoder_units"]
        self.source_embedding = nn.Embedding(source_vocab_size, width)
        self.target_embedding = nn.Embedding(target_vocab_size, width)
        self.encoder = nn.LSTM(
            width, settings["encoder_units"], bidirectional=True, batch_first=True
        )
        self.cell = nn.LSTMCell(width + units, units)
        self.memory = nn.Linear(memory_width, units, bias=False)
        self.combination = nn.Linear(memory_width + units, units, bias=False)
        self.output = nn.Linear(units, target_vocab_size)
        self.embedding_dropout = nn.Dropout(settings["embedding_dropout"])
        self.encoder_dropout = nn.Dropout(settings["dropout"])
        self.output_dropout = nn.Dropout(settings["output_dropout"])
        # PyTorch adds two biases where one is enough. Both would count in the gradient's norm.
        for name, weight in self.named_parameters():
            if "bias_hh" in name:
                nn.init.zeros_(weight).requires_grad_(False)

    def forward(self, source_ids, target_in_ids):
        """`[B, S]`, `[B, T]` -> logits `[B, T, V]`."""
        hidden = (source_ids == PAD_ID).unsqueeze(1)  # [B, 1, S]
        memory = self.encode(source_ids)
        keys = self.memory(memory).transpose(1, 2)  # [B, U, S]
        embedded = self.embedding_dropout(self.target_embedding(target_in_ids))
        fed = memory.new_zeros(len(memory), self.cell.hidden_size)
        state, outputs = (fed, fed), []
        for x in embedded.unbind(1):
            fed, state = self.step(x, fed, state, (memory, keys, hidden))
            outputs.append(fed)
        return self.output(torch.stack(outputs, dim=1))

    def step(self, x, fed, state, context):
        """Advances by an embedded token `[B, E]`; returns (attention output `[B, U]`, state)."""
        memory, keys, hidden = context
        state = self.cell(torch.cat([x, fed], dim=1), state)
        top = state[0].unsqueeze(1)  # [B, 1, U]
        scores = torch.bmm(top, keys).masked_fill(hidden, -torch.inf)
        vectors = torch.bmm(scores.softmax(-1), memory)
        both = torch.cat([vectors, top], dim=2).squeeze(1)
        return self.output_dropout(self.combination(both).tanh()), state

    def encode(self, source_ids):
        """`[B, S]` -> `[B, S, memory_width]`."""
        embedded = self.embedding_dropout(self.source_embedding(source_ids))
        lengths = (source_ids != PAD_ID).sum(1)
        packed = rnn.pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        memory, _ = rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        return self.encoder_dropout(memory)

    @torch.no_grad()
    def take_weights(self, weights):
        """Sets all weights to those of the Keras model: path without the model's name -> array."""
        arrays = {
            "source_embedding.weight": weights["source_embedding/embeddings"],
            "target_embedding.weight": weights["target_embedding/embeddings"],
            "memory.weight": weights["decoder/attention/memory/kernel"].T,
            "combination.weight": weights["decoder/combination/kernel"].T,
            "output.weight": weights["output/kernel"].T,
            "output.bias": weights["output/bias"],
        }
        for name, ours in (
            ("encoder.*_l0", "encoder_0/forward/cell"),
            ("encoder.*_l0_reverse", "encoder_0/backward/cell"),
            ("cell.*", "decoder/layer_0/cell"),
        ):
            inputs = [weights[f"{ours}/kernel"]]
            if f"{ours}/fed_kernel" in weights:
                inputs.append(weights[f"{ours}/fed_kernel"])
            bias = _gates(weights[f"{ours}/bias"])
            arrays[name.replace("*", "weight_ih")] = _gates(np.concatenate(inputs)).T
            arrays[name.replace("*", "weight_hh")] = _gates(weights[f"{ours}/recurrent_kernel"]).T
            arrays[name.replace("*", "bias_ih")] = bias
            arrays[name.replace("*", "bias_hh")] = np.zeros_like(bias)
        self.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})


@torch.inference_mode()
def beam_search(model, source_ids, beam_size, length_penalty):
    """Finds the translations that `decoding.search` finds, with a `LuongModel`.

    Args:
        model: `LuongModel` in evaluation mode.
        source_ids: `[B, S]` int64, padded.
        beam_size: K.
        length_penalty: alpha of Wu et al. 2016.

    Returns:
        For every sentence the ids of the best translation, a list.
    """
    limits = (2 * (source_ids != PAD_ID).sum(1) + 20).tolist()
    memory = model.encode(source_ids)
    context = (memory, model.memory(memory).transpose(1, 2), (source_ids == PAD_ID).unsqueeze(1))
    context = [x.repeat_interleave(beam_size, dim=0) for x in context]
    fed = memory.new_zeros(len(context[0]), model.cell.hidden_size)
    state = (fed, fed)
    rows = list(range(len(source_ids)))  # Sentences that are not done.
    ids = torch.full((len(rows), beam_size, 1), BOS_ID)
    scores = torch.full((len(rows), beam_size), -1e9)  # [B, K]
    scores[:, 0] = 0.0
    finished = [[] for _ in rows]
    for step in range(1, max(limits) + 1):
        x = model.target_embedding(ids[:, :, -1].flatten())
        fed, state = model.step(x, fed, state, context)
        log_probs = model.output(fed).log_softmax(-1)  # [B * K, V]
        log_probs[:, [PAD_ID, UNK_ID, BOS_ID]] = -1e9
        vocab_size = log_probs.shape[-1]
        totals = log_probs.view(len(rows), beam_size, vocab_size) + scores.unsqueeze(2)
        totals, best = totals.flatten(1).topk(2 * beam_size)
        parents, tokens = best // vocab_size, best % vocab_size
        longer = ids.gather(1, parents.unsqueeze(2).expand(-1, -1, ids.shape[2]))
        longer = torch.cat([longer, tokens.unsqueeze(2)], dim=2)  # [B, 2K, T + 1]
        ends = tokens == EOS_ID
        for row, k in (ends & (totals > -1e8))[:, :beam_size].nonzero().tolist():
            score = float(totals[row, k]) / ((5 + step) / 6) ** length_penalty
            finished[rows[row]].append((score, longer[row, k, 1:].tolist()))
        scores, best = totals.masked_fill(ends, -1e9).topk(beam_size)
        ids = longer.gather(1, best.unsqueeze(2).expand(-1, -1, step + 1))
        for row, number in enumerate(rows):
            if step == limits[number] and not finished[number]:
                finished[number].append((0.0, ids[row, 0, 1:].tolist()))
        live = [
            row
            for row, number in enumerate(rows)
            if len(finished[number]) < beam_size and step < limits[number]
        ]
        if not live:
            break
        parents = parents.gather(1, best) + torch.arange(len(rows)).unsqueeze(1) * beam_size
        if len(live) < len(rows):
            rows = [rows[row] for row in live]
            live = torch.tensor(live)
            places = (live.unsqueeze(1) * beam_size + torch.arange(beam_size)).flatten()
            parents, ids, scores = parents[live], ids[live], scores[live]
            context = [x[places] for x in context]
        parents = parents.flatten()
        fed, state = fed[parents], tuple(x[parents] for x in state)
    return [max(some)[1] for some in finished]


def _gates(columns):
    """Reorders columns from the project's gates i, f, o, g to PyTorch's i, f, g, o."""
    i, f, o, g = np.split(columns, 4, axis=-1)
    return np.concatenate([i, f, g, o], axis=-1)


class TransformerModel(nn.Module):
    """`nn.Transformer` with embeddings that also serve as output layer; Vaswani et al. 2017.

    Args:
        vocab_size: number of ids of the shared vocabulary.
        settings: settings of the preset; this network uses its sizes and rates.
    """

    def __init__(self, vocab_size, settings):
        super().__init__()
        self.width = settings["width"]
        self.embedding = nn.Embedding(vocab_size, self.width)
        # PyTorch's initial embeddings are too large for an output layer: losses start at hundreds.
        nn.init.normal_(self.embedding.weight, std=self.width**-0.5)
        self.embedding_dropout = nn.Dropout(settings["dropout"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that tensors are not nested.
            self.transformer = nn.Transformer(
                self.width,
                settings["num_heads"],
                settings["num_encoder_layers"],
                settings["num_decoder_layers"],
                settings["ffn_width"],
                settings["dropout"],
                layer_norm_eps=1e-6,
                batch_first=True,
                norm_first=settings["norm"] == "pre",
            )
        if settings["norm"] == "post":  # Its layers normalise their outputs, and PyTorch once more.
            self.transformer.encoder.norm = self.transformer.decoder.norm = None
        # PyTorch uses one dropout rate everywhere; the paper has no dropout at these places.
        for layer in (*self.transformer.encoder.layers, *self.transformer.decoder.layers):
            layer.dropout.p = settings["ffn_dropout"]
            layer.self_attn.dropout = settings["attention_dropout"]
            if hasattr(layer, "multihead_attn"):
                layer.multihead_attn.dropout = settings["attention_dropout"]
        self.register_buffer("positions", _sinusoids(LONGEST, self.width), persistent=False)

    def forward(self, source_ids, target_in_ids):
        """`[B, S]`, `[B, T]` -> logits `[B, T, V]`."""
        length = target_in_ids.shape[1]
        hidden = source_ids == PAD_ID
        features = self.transformer(
            self._embed(source_ids),
            self._embed(target_in_ids),
            tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
            tgt_is_causal=True,
            src_key_padding_mask=hidden,
            memory_key_padding_mask=hidden,
        )
        return functional.linear(features, self.embedding.weight)

    def _embed(self, ids):
        x = self.embedding(ids) * math.sqrt(self.width) + self.positions[: ids.shape[1]]
        return self.embedding_dropout(x)

    @torch.no_grad()
    def take_weights(self, weights):
        """Sets all weights to those of the Keras model: path without the model's name -> array."""
        arrays = {"embedding.weight": weights["target_embedding/embeddings"]}
        parts = {name.rpartition(".")[0] for name, _ in self.transformer.named_parameters()}
        for part in parts:
            names, ours = _ours(part), f"transformer.{part}"
            if part.endswith("attn"):
                for ending, side in (("weight", "kernel"), ("bias", "bias")):
                    three = [weights[f"{names}/{x}/{side}"].T for x in ("query", "key", "value")]
                    arrays[f"{ours}.in_proj_{ending}"] = np.concatenate(three)
                continue
            sides = ("gamma", "beta") if "norm" in part else ("kernel", "bias")
            for ending, side in zip(("weight", "bias"), sides, strict=True):
                arrays[f"{ours}.{ending}"] = weights[f"{names}/{side}"].T
        self.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})


def _ours(part):
    """Translates a name of `nn.Transformer`, such as `decoder.layers.0.norm2`, to the project's."""
    side, *rest = part.split(".")
    if rest == ["norm"]:
        return f"{side}_norm"
    _, number, name, *inner = rest
    sublayers = {
        "encoder": ("attention", "feed_forward"),
        "decoder": ("self_attention", "cross_attention", "feed_forward"),
    }
    names = {
        "self_attn": "self_attention",
        "multihead_attn": "cross_attention",
        "linear1": "feed_forward/inner",
        "linear2": "feed_forward/outer",
        **{f"norm{i}": f"around_{name}/norm" for i, name in enumerate(sublayers[side], 1)},
    }
    return "/".join([f"{side}_{number}", names[name], *(["output"] if inner else [])])


def _sinusoids(length, width):
    """Returns `[length, width]`: sines on even columns, cosines on odd columns; section 3.5."""
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
    angles = torch.arange(length)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class TorchUpdate:
    """An update like that of `training.ways.gradient.gradient.GradientUpdate`, in PyTorch.

    Args:
        model: `LuongModel` or `TransformerModel`.
        learning_rate: peak of the schedule.
        warmup_steps: updates until the peak.
        label_smoothing: in [0, 1).
        clip_norm: largest global norm of the gradient.
        exact_norm: whether `step` sums the norm that it returns in float64. This is for comparisons
            of networks: `clip_grad_norm_` sums in float32 and is off by 1e-4.
        precision: "float32", or "bfloat16" for autocast.
        compiled: whether `torch.compile` compiles the loss and its gradient.
    """

    def __init__(
        self,
        model,
        *,
        learning_rate,
        warmup_steps,
        label_smoothing,
        clip_norm,
        exact_norm=False,
        precision="float32",
        compiled=False,
    ):
        self.model = model
        self.exact_norm = exact_norm
        self.precision = precision
        # Batches differ in their lengths.
        self.loss = torch.compile(self._loss, dynamic=True) if compiled else self._loss
        self.label_smoothing = label_smoothing
        self.clip_norm = clip_norm
        self.optimizer = torch.optim.Adam(
            model.parameters(), learning_rate, betas=(0.9, 0.98), eps=1e-9, fused=True
        )
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer,
            lambda step: min((step + 1) / warmup_steps, (warmup_steps / (step + 1)) ** 0.5),
        )

    def step(self, source_ids, target_ids):
        """Makes an update by a batch of ids; returns `(loss a token, norm of its gradient)`."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bfloat16"):
            loss = self.loss(source_ids, target_ids)
        self.optimizer.zero_grad()
        loss.backward()
        exact = self._float64_norm() if self.exact_norm else None
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
        self.optimizer.step()
        self.schedule.step()
        return loss.detach(), norm if exact is None else exact

    def _loss(self, source_ids, target_ids):
        bos = torch.full_like(target_ids[:, :1], BOS_ID)
        logits = self.model(source_ids, torch.cat([bos, target_ids[:, :-1]], dim=1))
        return functional.cross_entropy(
            logits.flatten(0, 1),
            target_ids.flatten(),
            ignore_index=PAD_ID,
            label_smoothing=self.label_smoothing,
        )

    def _float64_norm(self):
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        return torch.stack([g.double().square().sum() for g in gradients]).sum().sqrt()
