#!/usr/bin/env bash
# Trains with text of the target language alone: back-translation by sampling, with a tag.
#
# Cost: two trainings, and a translation of MONO. Score: not run here.
#   Edunov et al. 2018 (samples), Caswell et al. 2019 (tag).
#
#   MONO=mono.de runs/back_translation.sh [more flags of train.py, for both trainings]
#
# Without variables, a part of the demo corpus is the text, and the German side of another part is
# MONO.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON="${PYTHON:-.venv/bin/python}"
RUNS="${RUNS:-runs/back_translation}"
SOURCE="${SOURCE:-$RUNS/train.en}"
TARGET="${TARGET:-$RUNS/train.de}"
VALID_SOURCE="${VALID_SOURCE:-data/demo/valid.en}"
VALID_TARGET="${VALID_TARGET:-data/demo/valid.de}"
MONO="${MONO:-$RUNS/mono.de}"
WEIGHTS="${WEIGHTS:-1,1}"  # shares of an epoch: pairs, back-translated pairs

mkdir -p "$RUNS"
if [[ ! -e "$SOURCE" || ! -e "$MONO" ]]; then
    "$PYTHON" -c 'from nmt_zoo.data_pipeline import datasets; datasets.prepare("demo", "data")'
    head -n 6000 data/demo/train.en > "$RUNS/train.en"
    head -n 6000 data/demo/train.de > "$RUNS/train.de"
    tail -n 6000 data/demo/train.de > "$RUNS/mono.de"
fi

"$PYTHON" train.py --train_source="$TARGET" --train_target="$SOURCE" \
    --valid_source="$VALID_TARGET" --valid_target="$VALID_SOURCE" --model_dir="$RUNS/reverse" "$@"
"$PYTHON" translate.py --model_dir="$RUNS/reverse" --sample --tag=XBT \
    --input="$MONO" --output="$RUNS/back"
"$PYTHON" train.py --train_source="$SOURCE,$RUNS/back" --train_target="$TARGET,$MONO" \
    --corpus_weights="$WEIGHTS" --valid_source="$VALID_SOURCE" --valid_target="$VALID_TARGET" \
    --model_dir="$RUNS/forward" "$@"
