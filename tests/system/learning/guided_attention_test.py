"""A Transformer learns from an alignment model to align the demo corpus."""

import json

import pytest

from tests.running import run_script


@pytest.mark.slow
def test_the_guided_head_of_a_transformer_aligns(tmp_path):
    """The first layer, of which it is a head, has an alignment error rate above 0.2 without it."""
    text = [f"--data_dir={tmp_path / 'data'}", "--dataset=demo"]
    guide = ["--model=hmm_alignment", "--tokenizer=bpe", f"--model_dir={tmp_path / 'guide'}"]
    guide += [f"--reverse_model_dir={tmp_path / 'reverse'}"]
    run_script("train", [*text, *guide])
    guided = ["--model=transformer_tiny", f"--guide={tmp_path / 'guide'}", "--bleu_lines=0"]
    run_script("train", [*text, *guided, f"--model_dir={tmp_path / 'guided'}"])
    files = zip(("source", "target", "gold"), ("en", "de", "en-de"), strict=True)
    flags = [f"--{name}={tmp_path / 'data/demo/test'}.{ending}" for name, ending in files]
    flags += [f"--model_dir={tmp_path / 'guided'}", f"--save_scores={tmp_path / 'scores.json'}"]
    flags += [f"--alignments={tmp_path / 'test.en-de'}"]
    run_script("align", flags)
    scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert scores["aer"] < 0.15
