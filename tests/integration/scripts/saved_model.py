"""Runs a SavedModel by a program in C, without Python, as a server or another language does."""

import shutil
import subprocess
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

SOURCE = Path(__file__).with_name("saved_model.c")


def compile_program(folder):
    """Compiles the program against the installed TensorFlow; returns its path.

    Skips the test if there is no C compiler, or no library of TensorFlow to link.
    """
    library = Path(tf.sysconfig.get_lib())
    if not shutil.which("gcc"):
        pytest.skip("there is no gcc")
    if not (library / "libtensorflow_cc.so.2").exists():
        pytest.skip("this TensorFlow has no libtensorflow_cc.so.2")
    program = folder / "saved_model"
    command = ["gcc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", str(SOURCE)]
    command += ["-o", str(program), f"-I{tf.sysconfig.get_include()}", f"-L{library}"]
    command += ["-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2"]
    command.append(f"-Wl,-rpath,{library}")
    if shutil.which("ld.gold"):  # Links a library of a gigabyte seconds faster.
        command.append("-fuse-ld=gold")
    subprocess.run(command, check=True)
    return program


def call(
    program,
    folder,
    text,
    signature="serving_default",
    outputs=("score", "translation"),
    **options,
):
    """Calls a signature for the lines of a text file.

    Args:
        program: path from `compile_program`.
        folder: folder of the SavedModel.
        text: path of the file; of two inputs of text, each has a column.
        signature: its name.
        outputs: names of the outputs.
        **options: numbers by the names of inputs, the same for all lines.

    Returns:
        for each line a list of str, all values of the outputs.
    """
    import tensorflow_text

    folder_of_ops = Path(tensorflow_text.__file__).parent / "python" / "ops"
    libraries = "_sentencepiece_tokenizer.so", "_normalize_ops.so"
    ops = ",".join(str(folder_of_ops / library) for library in libraries)
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((folder / "saved_model.pb").read_bytes())
    signature = saved.meta_graphs[0].signature_def[signature]
    tensors = [signature.inputs[name].name for name in sorted(signature.inputs.keys() - options)]
    for name, value in options.items():
        kind = "f" if isinstance(value, float) else "i"
        tensors.append(f"{signature.inputs[name].name}={kind}{value}")
    tensors += ["--", *(signature.outputs[name].name for name in outputs)]
    with open(text, "rb") as lines:
        done = subprocess.run(
            [program, ops, folder, *tensors], stdin=lines, capture_output=True, check=False
        )
    assert done.returncode == 0, done.stderr.decode()
    return [line.split("\t") for line in done.stdout.decode().split("\n")[:-1]]


def translate(program, folder, text):
    """Translates the lines of a text file; returns a list of (score, translation)."""
    rows = call(program, folder, text)
    return [(float(score), "\t".join(text)) for score, *text in rows]
