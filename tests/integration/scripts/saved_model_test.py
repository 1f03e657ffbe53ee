"""A SavedModel answers a program in C, without Python, as a server or another language calls it."""

import shutil
import subprocess
from pathlib import Path

import pytest
import tensorflow as tf
import tensorflow_text

from nmt_zoo.common.files import read_lines, write_lines
from nmt_zoo.serving.export.server_files import read_meta_graph
from tests.running import run_script

SOURCE = Path(__file__).with_name("saved_model.c")


def compiled(folder):
    """Compiles the program against the installed TensorFlow; returns its path."""
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


def called(program, folder, text, signature, outputs, **options):
    """Calls a signature for the lines of a file; returns the outputs of each line, as text.

    `options` are numbers by the names of inputs, the same for all lines.
    """
    folder_of_ops = Path(tensorflow_text.__file__).parent / "python" / "ops"
    libraries = "_sentencepiece_tokenizer.so", "_normalize_ops.so"
    ops = ",".join(str(folder_of_ops / library) for library in libraries)
    signature = read_meta_graph(folder).signature_def[signature]
    tensors = [signature.inputs[name].name for name in sorted(signature.inputs.keys() - options)]
    for name, value in options.items():
        kind = "f" if isinstance(value, float) else "i"
        tensors.append(f"{signature.inputs[name].name}={kind}{value}")
    tensors += ["--", *(signature.outputs[name].name for name in outputs)]
    with open(text, "rb") as lines:
        done = subprocess.run([program, ops, folder, *tensors], stdin=lines, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return [line.split("\t") for line in done.stdout.decode().split("\n")[:-1]]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_saved_model_translates_without_python(precision, transformer, text, tmp_path):
    program, export, path = compiled(tmp_path), tmp_path / "export", tmp_path / "text"
    write_lines(path, [*read_lines(text / "valid.source")[:5], "", "Ü 7 dog"])
    model = f"--model_dir={transformer}", f"--precision={precision}"
    run_script("export", [*model, f"--export_dir={export}"])
    flags = [*model, f"--input={path}", f"--output={tmp_path / 'out'}", "--engine=tensorflow"]
    run_script("translate", [*flags, "--format=scores"])
    expected = [line.split("\t") for line in read_lines(tmp_path / "out")]
    outputs = "score", "translation"
    for signature, options in (
        ("serving_default", {}),
        ("translate", {"beam_size": -1, "length_penalty": -1.0, "n_best": 1}),
    ):
        rows = called(program, export / "1", path, signature, outputs, **options)
        assert [row[1] for row in rows] == [row[1] for row in expected]
        scores = [float(row[0]) for row in expected]
        tolerance = 1e-4 if precision == "float32" else 1e-2
        assert [float(row[0]) for row in rows] == pytest.approx(scores, abs=tolerance)
