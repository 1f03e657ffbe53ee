#!/usr/bin/env bash
# Trains a finished model on, with other text, and compares both on a test of that text.
#
# Cost: a few hundred to a few thousand updates. Score: not run here.
#
#   BASE=runs/x SOURCE=new.en TARGET=new.de TEST_SOURCE=test.en TEST_TARGET=test.de \
#       runs/fine_tuning.sh [more flags of train.py]
#
# To keep what the model knew, give the old text, too: SOURCE=new.en,old.en TARGET=new.de,old.de.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON="${PYTHON:-.venv/bin/python}"
BASE="${BASE:-runs/demo}"
MODEL_DIR="${MODEL_DIR:-runs/fine_tuned}"
SOURCE="${SOURCE:-data/demo/train.en}"
TARGET="${TARGET:-data/demo/train.de}"
TEST_SOURCE="${TEST_SOURCE:-data/demo/test.en}"
TEST_TARGET="${TEST_TARGET:-data/demo/test.de}"
RATE="${RATE:-3e-4}"  # about a tenth of the rate that trained BASE

"$PYTHON" train.py --init_from="$BASE" --train_source="$SOURCE" --train_target="$TARGET" \
    --learning_rate="$RATE" --warmup_steps=100 --model_dir="$MODEL_DIR" "$@"
for model in "$BASE" "$MODEL_DIR"; do
    echo "$model"
    "$PYTHON" translate.py --model_dir="$model" --input="$TEST_SOURCE" --reference="$TEST_TARGET" \
        --output="$MODEL_DIR/test.out"
done
