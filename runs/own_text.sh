#!/usr/bin/env bash
# Trains on text of your own, translates a test, and draws attention.
#
# Cost and score depend on the text. With the choices of train.py, on two cores:
#   10,000 pairs of Europarl de-en   3.5 minutes   20.54 BLEU (lower-cased tokens), test
#                                    (phrase_based; docs/results/phrases/europarl_10000.json)
#   29,000 pairs of Multi30k en-de   109 minutes   41.35 BLEU, test_2016_flickr
#                                    (docs/results/methods/multi30k_en_de/default-1.json)
#
#   SOURCE=a.en TARGET=a.de runs/own_text.sh [more flags of train.py, such as --max_minutes=10]
#
# Without SOURCE and TARGET, a part of the demo corpus is the text.
set -euo pipefail
cd "$(dirname "$0")/.."  # Paths are relative to the top folder.

PYTHON="${PYTHON:-.venv/bin/python}"
MODEL_DIR="${MODEL_DIR:-runs/own_text}"
SOURCE="${SOURCE:-}"
TARGET="${TARGET:-}"
INPUT="${INPUT:-data/demo/test.en}"          # text to translate
REFERENCE="${REFERENCE:-data/demo/test.de}"  # its correct translation

mkdir -p "$MODEL_DIR"
if [[ -z "$SOURCE" || -z "$TARGET" ]]; then
    "$PYTHON" -c 'from nmt_zoo.data_pipeline import datasets; datasets.prepare("demo", "data")'
    SOURCE="$MODEL_DIR.source" TARGET="$MODEL_DIR.target"
    head -n 5000 data/demo/train.en > "$SOURCE"
    head -n 5000 data/demo/train.de > "$TARGET"
fi

"$PYTHON" train.py --train_source="$SOURCE" --train_target="$TARGET" --model_dir="$MODEL_DIR" "$@"
"$PYTHON" translate.py --model_dir="$MODEL_DIR" --input="$INPUT" --reference="$REFERENCE" \
    --output="$MODEL_DIR/test.out" --save_scores="$MODEL_DIR/scores.json"
"$PYTHON" visualize_attention.py --model_dir="$MODEL_DIR" --source="$(head -n 1 "$INPUT")" \
    --output="$MODEL_DIR/attention.html"
