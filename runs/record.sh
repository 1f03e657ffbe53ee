#!/usr/bin/env bash
# Trains for half an hour on lower-cased Multi30k English-German, and scores test_2016_flickr.
#
# Cost: 30 minutes on two cores. Score: docs/studies/record.md, which tells what was tried.
#
#   runs/record.sh [more flags of train.py]
#   TEXT_ONLY=1 runs/record.sh
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON="${PYTHON:-.venv/bin/python}"
DATA="${DATA:-data}"
MODEL_DIR="${MODEL_DIR:-runs/record}"
SEED="${SEED:-1}"
MINUTES="${MINUTES:-30}"
TO="${TO:-de}"  # de, fr or cs
TEXT="$DATA/multi30k_en_${TO}_lower"

if [[ ! -e "$TEXT" ]]; then
    "$PYTHON" - "$DATA" "$TEXT" "$TO" << 'END'
import os, sys
from nmt_zoo.common.files import read_lines, write_lines
from nmt_zoo.data_pipeline import datasets

data, folder, language = sys.argv[1:]
splits = datasets.prepare(f"multi30k_en_{language}", data)
os.makedirs(folder + ".part", exist_ok=True)
for path in (path for split in splits.values() for path in split):
    lines = (line.lower() for line in read_lines(path))
    write_lines(os.path.join(folder + ".part", os.path.basename(path)), lines)
os.rename(folder + ".part", folder)
END
fi
if [[ "${TEXT_ONLY:-}" ]]; then exit; fi
# A replica on each of two cores, with half of the tokens. Everything else is the choice of train.py,
# for the size of the text and the time.
"$PYTHON" train.py --train_source="$TEXT/train.en" --train_target="$TEXT/train.$TO" \
    --valid_source="$TEXT/valid.en" --valid_target="$TEXT/valid.$TO" --noise=none \
    --distribution=mirrored --num_replicas=2 --max_tokens_per_batch=1024 \
    --max_minutes="$MINUTES" --seed="$SEED" --model_dir="$MODEL_DIR" "$@"
"$PYTHON" translate.py --model_dir="$MODEL_DIR" --beam_size=5 --engine=tensorflow \
    --input="$TEXT/test.en" --reference="$TEXT/test.$TO" \
    --output="$MODEL_DIR/test.$TO" --save_scores="$MODEL_DIR/scores.json"
