"""Small pretrained models in public forms, and what they compute, in NumPy."""

import json
import math
from functools import partial

import numpy as np
import safetensors.numpy
import sentencepiece

from tests.tiny import WORDS

LINES = [f"the {a} {b} the {c} ." for a in WORDS for b in ("sees", "runs") for c in WORDS]
OTHER = [f"der {a} {b} ein {c} !" for a in WORDS.values() for b in ("ist", "hat") for c in "äöüß"]
CODES = {"m2m": "__{}__", "mbart": "{}_XX", "nllb": "{}g_Latn"}
ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "swish": lambda x: x / (1 + np.exp(-x)),
    "gelu": np.vectorize(lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
}
_WIDTH, _HEADS, _INNER, _LAYERS = 16, 2, 24, 2


def train_spm(path, lines):
    """Writes a SentencePiece model; returns its pieces."""
    text = path.with_suffix(".txt")
    text.write_text("\n".join(lines))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(path),
        vocab_size=60,
        hard_vocab_limit=False,
        character_coverage=1.0,
        minloglevel=2,
    )
    path.with_name(path.name + ".model").rename(path)
    text.unlink()
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [processor.id_to_piece(i) for i in range(3, len(processor))]


def make_folder(folder, kind):
    """Writes a model of a kind, with random weights, as the hub has it; returns its tensors.

    `kind` is "marian", "tags" (Marian with tags of languages), "m2m", "nllb" or "mbart".
    """
    folder.mkdir(parents=True)
    is_marian = kind in ("marian", "tags")
    if is_marian:
        pieces = ["</s>", "<unk>", *train_spm(folder / "source.spm", LINES)]
        pieces += [p for p in train_spm(folder / "target.spm", OTHER) if p not in pieces]
        pieces.remove("ee")  # As in real ones, a piece of SentencePiece has no entry.
        pieces += [">>deu<<", ">>fra<<"] if kind == "tags" else []
        vocabulary = {piece: i for i, piece in enumerate([*pieces, "<pad>"])}
        (folder / "vocab.json").write_text(json.dumps(vocabulary))
        size = len(vocabulary)
        ids = {"pad_token_id": size - 1, "eos_token_id": 0, "decoder_start_token_id": size - 1}
    else:
        spm = train_spm(folder / "sentencepiece.bpe.model", [*LINES, *OTHER])
        pieces = ["<s>", "<pad>", "</s>", "<unk>", *(reversed(spm) if kind == "m2m" else spm)]
        if kind == "m2m":
            vocabulary = {piece: i for i, piece in enumerate(pieces)}
            (folder / "vocab.json").write_text(json.dumps(vocabulary))
        first = len(pieces)
        added = {first + i: CODES[kind].format(code) for i, code in enumerate(("en", "de", "fr"))}
        tokens = {str(i): {"content": sign} for i, sign in added.items()}
        (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": tokens}))
        size = first + 5  # Ids without a piece follow.
        ids = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    config = {
        "model_type": {"m2m": "m2m_100", "nllb": "m2m_100", "mbart": "mbart"}.get(kind, "marian"),
        "activation_function": {"mbart": "gelu"}.get(kind, "swish" if is_marian else "relu"),
        "scale_embedding": True,
        "d_model": _WIDTH,
        "vocab_size": size,
        "max_position_embeddings": 64,
        "dropout": 0.1,
        **ids,
    }
    for side in ("encoder", "decoder"):
        config |= {f"{side}_layers": _LAYERS, f"{side}_ffn_dim": _INNER}
        config[f"{side}_attention_heads"] = _HEADS
    (folder / "config.json").write_text(json.dumps(config))
    tensors = _tensors(config)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    (folder / "README.md").write_text("---\nlanguage: en\nlicense: cc-by-4.0\n---\n# A model\n")
    return config, tensors


def _tensors(config):
    rng = np.random.default_rng(3)
    size, kind = config["vocab_size"], config["model_type"]
    found = {"model.shared.weight": rng.normal(size=(size, _WIDTH)) * 0.4}
    if kind != "m2m_100":
        found["final_logits_bias"] = rng.normal(size=(1, size)) * 0.3
    if kind == "marian":
        found["model.shared.weight"][config["pad_token_id"]] = 0

    def pair(name, *shape):
        is_norm = len(shape) == 1
        weight = 1 + 0.2 * rng.normal(size=shape) if is_norm else rng.normal(size=shape) * 0.4
        found[f"{name}.weight"], found[f"{name}.bias"] = weight, rng.normal(size=shape[0]) * 0.2

    for side in ("encoder", "decoder"):
        start = f"model.{side}"
        for layer in range(_LAYERS):
            attentions = ("self_attn", "encoder_attn")[: 1 + (side == "decoder")]
            for attention in attentions:
                for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    pair(f"{start}.layers.{layer}.{attention}.{name}", _WIDTH, _WIDTH)
                pair(f"{start}.layers.{layer}.{attention}_layer_norm", _WIDTH)
            pair(f"{start}.layers.{layer}.fc1", _INNER, _WIDTH)
            pair(f"{start}.layers.{layer}.fc2", _WIDTH, _INNER)
            pair(f"{start}.layers.{layer}.final_layer_norm", _WIDTH)
        if kind != "marian":
            pair(f"{start}.layer_norm", _WIDTH)
        if kind == "mbart":
            pair(f"{start}.layernorm_embedding", _WIDTH)
            found[f"{start}.embed_positions.weight"] = rng.normal(size=(66, _WIDTH)) * 0.3
    return {name: array.astype(np.float32) for name, array in found.items()}


def logits(config, tensors, source_ids, decoder_ids):
    """Computes `[T, V]` logits of one sentence, as the papers and the toolkits define them."""
    network = Network(config, tensors)
    memory = network.stack(network.start(source_ids, "encoder"), "encoder")
    x = network.stack(network.start(decoder_ids, "decoder"), "decoder", memory)
    return x @ network.table("decoder").T + tensors.get("final_logits_bias", 0)


class Network:
    """A network of one of the toolkits."""

    def __init__(self, config, tensors):
        self.tensors = tensors
        self.kind = config["model_type"]
        self.activation = ACTIVATIONS[config["activation_function"]]

    def table(self, side):
        own = self.tensors.get(f"model.{side}.embed_tokens.weight")
        return self.tensors["model.shared.weight"] if own is None else own

    def linear(self, x, name):
        return x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]

    def norm(self, x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def attention(self, x, memory, name, is_causal):
        q, k, v = (
            self.linear(y, f"{name}.{part}_proj").reshape(len(y), _HEADS, -1)
            for y, part in ((x, "q"), (memory, "k"), (memory, "v"))
        )
        scores = np.einsum("thd,shd->hts", q, k) / math.sqrt(q.shape[-1])
        if is_causal:
            scores = np.where(np.tri(len(x), dtype=bool), scores, -1e9)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = np.einsum("hts,shd->thd", weights, v).reshape(len(x), -1)
        return self.linear(x, f"{name}.out_proj")

    def start(self, ids, side):
        x, half = self.table(side)[ids] * math.sqrt(_WIDTH), _WIDTH // 2
        if self.kind == "mbart":
            x = x + self.tensors[f"model.{side}.embed_positions.weight"][2 : 2 + len(ids)]
            return self.norm(x, f"model.{side}.layernorm_embedding")
        steps, first = (half, 0) if self.kind == "marian" else (half - 1, 2)
        angles = (np.arange(len(ids)) + first)[:, None] / 10000 ** (np.arange(half) / steps)
        return x + np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    def around(self, x, name, f):
        """A residual connection: normalisation comes last in Marian, first in the others."""
        if self.kind == "marian":
            return self.norm(x + f(x), name)
        return x + f(self.norm(x, name))

    def stack(self, x, side, memory=None):
        for layer in range(_LAYERS):
            at = f"model.{side}.layers.{layer}"
            own = partial(self._own, f"{at}.self_attn", memory is not None)
            x = self.around(x, f"{at}.self_attn_layer_norm", own)
            if memory is not None:
                cross = partial(self._cross, f"{at}.encoder_attn", memory)
                x = self.around(x, f"{at}.encoder_attn_layer_norm", cross)
            x = self.around(x, f"{at}.final_layer_norm", partial(self._inner, at))
        return x if self.kind == "marian" else self.norm(x, f"model.{side}.layer_norm")

    def _own(self, name, is_causal, x):
        return self.attention(x, x, name, is_causal)

    def _cross(self, name, memory, x):
        return self.attention(x, memory, name, False)

    def _inner(self, at, x):
        return self.linear(self.activation(self.linear(x, f"{at}.fc1")), f"{at}.fc2")


def write_marian(folder, config, tensors):
    """Writes tensors of the hub's form as a folder of Marian's own form."""
    folder.mkdir()
    theirs = folder.parent / "hub"
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes((theirs / name).read_bytes())
    vocabulary = json.loads((theirs / "vocab.json").read_text())
    lines = [
        f"{json.dumps(p, ensure_ascii=False)}: {i}\n" for p, i in vocabulary.items() if p != "<pad>"
    ]
    (folder / "v.yml").write_text("".join(lines))
    (folder / "decoder.yml").write_text("models:\n  - m.npz\nvocabs:\n  - v.yml\n  - v.yml\n")
    about = {
        **{"type": "transformer", "enc-depth": _LAYERS, "dec-depth": _LAYERS},
        **{"transformer-heads": _HEADS, "transformer-dim-ffn": _INNER, "dim-emb": _WIDTH},
        **{"transformer-ffn-activation": "swish", "transformer-preprocess": '""'},
        **{"transformer-postprocess": "dan", "transformer-postprocess-emb": "d"},
        **{"transformer-decoder-autoreg": "self-attention", "tied-embeddings-all": "true"},
        **{"transformer-no-projection": "false", "transformer-guided-alignment-layer": "last"},
    }
    text = "".join(f"{name}: {value}\n" for name, value in about.items())
    found = {"special:model.yml": np.frombuffer(text.encode() + b"\0", np.int8)}
    found["Wemb"] = tensors["model.shared.weight"][:-1]
    found["decoder_ff_logit_out_b"] = tensors["final_logits_bias"][:, :-1]
    names = {"self_attn": "self", "encoder_attn": "context"}
    for name, array in tensors.items():
        side, _, layer, *rest, part = name.removeprefix("model.").split(".") + [""] * 3
        if "layers" not in name:
            continue
        rest = [x for x in (*rest, part) if x]
        at = f"{side}_l{int(layer) + 1}"
        short, kind = rest[0], rest[-1]
        letter = "W" if kind == "weight" else "b"
        if short in names:
            projection = rest[1][0]
            at += f"_{names[short]}_{letter}{projection}"
        elif short in ("fc1", "fc2"):
            at += f"_ffn_{letter}{short[-1]}"
        else:
            of = {"self_attn_layer_norm": "self_Wo", "encoder_attn_layer_norm": "context_Wo"}
            ending = "scale" if kind == "weight" else "bias"
            at += f"_{of.get(short, 'ffn_ffn')}_ln_{ending}"
        is_matrix = array.ndim == 2
        found[at] = array.T if is_matrix else array[None]
    np.savez(folder / "m.npz", **found)
