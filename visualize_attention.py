"""Draws what a trained model attends to.

python visualize_attention.py --model_dir=runs/x --source="A dog runs." --output=attention.png
"""

from training import quiet  # before all that imports TensorFlow

# isort: split

import tensorflow as tf
from absl import app, flags

from data_pipeline.files import UserError
from decoding.pictures import kinds, save_attention
from decoding.translator import Translator
from training.checkpoints import ModelDirectory
from training.console import one_line_errors

FLAGS = flags.FLAGS

flags.DEFINE_string("model_dir", None, "Directory that train.py wrote.", required=True)
flags.DEFINE_string("source", None, "The sentence to read.", required=True)
flags.DEFINE_string("target", "", "Its translation; empty: the model's own.")
flags.DEFINE_string("output", "attention.png", "Picture to write: .png, .svg or .pdf.")
flags.DEFINE_enum(
    "attention",
    "cross",
    ["cross", "encoder", "decoder"],
    "cross: target to source; encoder, decoder: self-attention.",
)
flags.DEFINE_integer("layer", None, "Only this layer, counted from 1.", lower_bound=1)
flags.DEFINE_string("head", "", "Only this head, counted from 1, or: mean.")
flags.DEFINE_bool("merge_subwords", False, "Words instead of subword pieces.")
flags.DEFINE_integer("beam_size", 4, "Of the search for the translation.", lower_bound=1)


def check_kind(found, name):
    """Raises `UserError` if a model of this name has not the attention that is asked for."""
    if not found:
        raise UserError(f"{name} has no attention, so there is nothing to draw")
    if FLAGS.attention not in found:
        have = " or ".join(f"--attention={kind}" for kind in found)
        raise UserError(f"{name} has no {FLAGS.attention} attention; draw it with {have}")


def main(argv):
    """Reads flags, translates if needed, draws."""
    if len(argv) > 1:
        raise UserError(f"unexpected argument {argv[1]!r}; put --source in quotation marks")
    quiet.start()
    if FLAGS.head not in ("", "mean") and not FLAGS.head.isdecimal():
        raise UserError(f"--head={FLAGS.head}: expected a number, counted from 1, or mean")
    model, tokenizer, config = ModelDirectory(FLAGS.model_dir).load()
    translator = Translator(model, tokenizer, beam_size=FLAGS.beam_size)
    translator.check_known([FLAGS.source], "--source")
    source_ids = tokenizer.source.encode([FLAGS.source])[0]
    if FLAGS.target:
        target_ids = tokenizer.target.encode([FLAGS.target])[0]
    else:
        best = translator.translate([FLAGS.source])[0][0]
        print(best.text)
        target_ids = best.ids
    if len(source_ids) < 2:
        raise UserError("--source is empty; there is nothing to look at")

    maps = model.attention_maps(
        tf.constant([source_ids], tf.int32), tf.constant([target_ids], tf.int32)
    )
    check_kind(kinds(maps), f"{FLAGS.model_dir}: this {config['model']}")
    head = int(FLAGS.head) if FLAGS.head.isdecimal() else FLAGS.head or None
    try:
        save_attention(
            {name: weights[0].numpy() for name, weights in maps.items()},
            tokenizer.source.pieces(source_ids),
            tokenizer.target.pieces(target_ids),
            FLAGS.output,
            kind=FLAGS.attention,
            layer=FLAGS.layer,
            head=head,
            merge_subwords=FLAGS.merge_subwords,
        )
    except ValueError as error:
        raise UserError(f"{FLAGS.output}: {error}") from None
    print(f"wrote {FLAGS.output}")
    return 0


if __name__ == "__main__":
    app.run(one_line_errors(main))
