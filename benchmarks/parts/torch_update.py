"""The presets `transformer_*` and their update as one would write them in PyTorch."""

import math
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional

PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)
LONGEST = 1024  # Number of positions.


class TransformerModel(nn.Module):
    """`nn.Transformer` with embeddings that also serve as output layer; Vaswani et al. 2017.

    `vocab_size` is that of the shared vocabulary; of the `settings` of the preset, this network
    uses sizes and rates.
    """

    def __init__(self, vocab_size, settings):
        super().__init__()
        self.width = settings["width"]
        self.embedding = nn.Embedding(vocab_size, self.width)
        # PyTorch's initial embeddings are too large for an output layer: losses start at hundreds.
        nn.init.normal_(self.embedding.weight, std=self.width**-0.5)
        self.embedding_dropout = nn.Dropout(settings["dropout"])
        names = ("num_heads", "num_encoder_layers", "num_decoder_layers", "ffn_width", "dropout")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that tensors are not nested.
            self.transformer = nn.Transformer(
                self.width,
                *(settings[name] for name in names),
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
        rates = torch.exp(torch.arange(0, self.width, 2) * (-math.log(1e4) / self.width))
        angles = torch.arange(LONGEST)[:, None] * rates  # Section 3.5.
        sinusoids = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        self.register_buffer("positions", sinusoids, persistent=False)

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
        for part in {name.rpartition(".")[0] for name, _ in self.transformer.named_parameters()}:
            path, own = _path(part), f"transformer.{part}"
            if part.endswith("attn"):
                for ending, side in (("weight", "kernel"), ("bias", "bias")):
                    three = [weights[f"{path}/{x}/{side}"].T for x in ("query", "key", "value")]
                    arrays[f"{own}.in_proj_{ending}"] = np.concatenate(three)
                continue
            sides = ("gamma", "beta") if "norm" in part else ("kernel", "bias")
            for ending, side in zip(("weight", "bias"), sides, strict=True):
                arrays[f"{own}.{ending}"] = weights[f"{path}/{side}"].T
        self.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})


def _path(part):
    """Translates a name of `nn.Transformer`, such as `decoder.layers.0.norm2`, to the project's."""
    side, *rest = part.split(".")
    if rest == ["norm"]:
        return f"{side}/norm"
    _, number, name, *inner = rest
    around = ("attention", "feed_forward")
    if side == "decoder":
        around = ("self_attention", "cross_attention", "feed_forward")
    names = {
        "self_attn": "self_attention",
        "multihead_attn": "cross_attention",
        "linear1": "feed_forward/inner",
        "linear2": "feed_forward/outer",
        **{f"norm{i}": f"around_{sub_layer}/norm" for i, sub_layer in enumerate(around, 1)},
    }
    return "/".join([side, f"layer_{number}", names[name], *(["output"] if inner else [])])


class TorchUpdate:
    """An update like that of `training.ways.gradient.gradient.Gradient`, in PyTorch.

    `options` are learning_rate, the peak of the schedule; warmup_steps until it; label_smoothing;
    clip_norm, the largest global norm of the gradient. "bfloat16" as `precision` is for autocast.
    `is_compiled` says whether `torch.compile` compiles the loss and its gradient. `norms` has the
    norm of the gradient of each update, if it is a list; None keeps none.
    """

    def __init__(self, model, options, precision="float32", is_compiled=False):
        self.model, self.options, self.precision, self.norms = model, options, precision, None
        # Batches differ in their lengths.
        self.loss = torch.compile(self._loss, dynamic=True) if is_compiled else self._loss
        self.optimizer = torch.optim.Adam(
            model.parameters(), options["learning_rate"], betas=(0.9, 0.98), eps=1e-9, fused=True
        )
        warmup_steps = options["warmup_steps"]
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer,
            lambda step: min((step + 1) / warmup_steps, (warmup_steps / (step + 1)) ** 0.5),
        )

    def step(self, source_ids, target_ids):
        """Makes an update by a batch of ids; returns the loss a token."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bfloat16"):
            loss = self.loss(source_ids, target_ids)
        self.optimizer.zero_grad()
        loss.backward()
        if self.norms is not None:
            self.norms.append(self._norm())
        nn.utils.clip_grad_norm_(self.model.parameters(), self.options["clip_norm"])
        self.optimizer.step()
        self.schedule.step()
        return loss.detach()

    def _norm(self):
        # PyTorch's own sum is in float32, and off by 1e-4.
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        return torch.stack([g.double().square().sum() for g in gradients]).sum().sqrt()

    def _loss(self, source_ids, target_ids):
        bos = torch.full_like(target_ids[:, :1], BOS_ID)
        logits = self.model(source_ids, torch.cat([bos, target_ids[:, :-1]], dim=1))
        return functional.cross_entropy(
            logits.flatten(0, 1),
            target_ids.flatten(),
            ignore_index=PAD_ID,
            label_smoothing=self.options["label_smoothing"],
        )
