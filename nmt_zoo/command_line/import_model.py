"""Makes a model directory of a public pretrained model.

    python import_model.py --model=Helsinki-NLP/opus-mt-en-de --model_dir=runs/en-de
    echo "Good morning." | python translate.py --model_dir=runs/en-de

The model is a name on Hugging Face's hub, or a folder with its files: OPUS-MT (Marian), M2M-100,
SMaLL-100, NLLB-200 and mBART-50. Nothing in the files is executed. Every script then works with the
directory as with one of train.py; a model of several languages also needs --target_language, here
or in each script.
"""

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

import dataclasses
import functools
from pathlib import Path

from nmt_zoo.command_line import console, flag_values
from nmt_zoo.command_line.flag_values import group, language_flag
from nmt_zoo.common.errors import UserError

_model, _download = group("Model"), group("Download")


@dataclasses.dataclass(frozen=True)
class Arguments(flag_values.Arguments):
    """The flags of import_model.py."""

    model: str = _model(
        "", "Folder with the files of the model, or its name on the hub, as OWNER/NAME."
    )
    model_dir: str = _model("", "New model directory.")
    source_language: str = language_flag(_model, "source")
    target_language: str = language_flag(_model, "target")
    data_dir: str = _download("data/pretrained", "Folder for downloaded models.")
    mirror: str = _download(
        "", "Address of another hub that answers as https://huggingface.co does."
    )
    offline: bool = _download(False, "Uses files that are there, and never the network.")


def main(arguments: Arguments) -> int:
    """Reads flags, downloads if need be, writes the directory, and prints what is in it."""
    if not arguments.model or not arguments.model_dir:
        raise UserError("expected --model, a folder or a name such as OWNER/NAME, and --model_dir")
    from nmt_zoo.model_directory.pretrained import hub

    folder, origin = Path(arguments.model), arguments.model
    if not folder.is_dir():
        if not hub.is_name(arguments.model):
            raise UserError(
                f"--model={arguments.model}: no such folder, and no name such as OWNER/NAME"
            )
        where = {"mirror": arguments.mirror, "offline": arguments.offline}
        folder = hub.download(arguments.model, arguments.data_dir, **where)
    process.start_tensorflow()
    from nmt_zoo.model_directory.pretrained.importing import import_model

    config = import_model(
        folder, Path(arguments.model_dir), origin=origin, languages=arguments.languages
    )
    settings, licence = config["settings"], config["imported"]["license"] or "not stated"
    print(
        f"wrote {arguments.model_dir}: a Transformer of {settings['num_encoder_layers']} + "
        f"{settings['num_decoder_layers']} layers of {settings['width']}, "
        f"{config['vocab_sizes'][0]:,} entries, licence: {licence}"
    )
    if languages := config.get("languages"):
        print(f"languages: {' '.join(sorted(languages['signs']))}")
    return 0


command = functools.partial(console.run, main, Arguments)
