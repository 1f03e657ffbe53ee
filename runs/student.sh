#!/usr/bin/env bash
# Teaches a small model the translations of larger ones (Kim and Rush 2016), and writes it as a
# SavedModel, as a folder for CTranslate2, and as an archive for Argos Translate, in 8 bits.
#
# Cost: a translation of SOURCE by all teachers, and a training of MINUTES.
#
#   TEACHERS=runs/a,runs/b SOURCE=train.en TARGET=train.de VALID_SOURCE=valid.en \
#       VALID_TARGET=valid.de runs/student.sh [more flags of train.py for the student]
#
# Without variables, `make demo` has trained the teacher, and the demo corpus is the text.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON="${PYTHON:-.venv/bin/python}"
RUNS="${RUNS:-runs/student}"
TEACHERS="${TEACHERS:-runs/demo}"
SOURCE="${SOURCE:-data/demo/train.en}"
TARGET="${TARGET:-data/demo/train.de}"
VALID_SOURCE="${VALID_SOURCE:-data/demo/valid.en}"
VALID_TARGET="${VALID_TARGET:-data/demo/valid.de}"
PIECES="${PIECES:-4000}"
MINUTES="${MINUTES:-40}"
FROM="${FROM:-en}"  # languages, as ISO 639 has them
TO="${TO:-de}"

mkdir -p "$RUNS"
if [[ ! -e "$RUNS/taught" ]]; then
    "$PYTHON" translate.py --model_dir="$TEACHERS" --input="$SOURCE" --output="$RUNS/taught"
fi
valid=("--valid_source=$VALID_SOURCE" "--valid_target=$VALID_TARGET")
# Its links guide the attention of the student, which has its pieces.
"$PYTHON" train.py --model=hmm_alignment --tokenizer=bpe --num_pieces="$PIECES" \
    --train_source="$SOURCE" --train_target="$RUNS/taught" "${valid[@]}" --model_dir="$RUNS/links"
"$PYTHON" train.py --model=transformer_tiny --set=width=112 --set=ffn_width=224 \
    --set=num_encoder_layers=4 --set=num_decoder_layers=1 --set=positions=rotary --set=dropout=0.1 \
    --vocab_file="$RUNS/links/tokenizer/shared.model" --guide="$RUNS/links" --guide_weight=0.05 \
    --train_source="$SOURCE,$SOURCE" --train_target="$RUNS/taught,$TARGET" "${valid[@]}" \
    --noise=none --optimizer=muon --keep_best_by=bleu --max_minutes="$MINUTES" \
    --model_dir="$RUNS/model" "$@"
"$PYTHON" export.py --model_dir="$RUNS/model" --export_dir="$RUNS/savedmodel" --precision=int8
"$PYTHON" export.py --model_dir="$RUNS/model" --export_dir="$RUNS/ctranslate2" \
    --format=ctranslate2 --quantization=int8

"$PYTHON" - "$RUNS" "$FROM" "$TO" << 'END'
import json, sys, zipfile
from pathlib import Path

runs, source, target = sys.argv[1:]
folder = max((Path(runs) / "ctranslate2").glob("[0-9]*"), key=lambda path: int(path.name))
about = {"package_version": "1.0", "argos_version": "1.9", "type": "translate"}
about |= {"from_code": source, "from_name": source, "to_code": target, "to_name": target}
name = f"translate-{source}_{target}-1_0"
with zipfile.ZipFile(f"{runs}/{name}.argosmodel", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr(f"{name}/metadata.json", json.dumps(about, indent=2))
    archive.write(folder / "tokenizer" / "shared.model", f"{name}/sentencepiece.model")
    for path in (folder / "model.bin", *folder.glob("*vocabulary*")):
        archive.write(path, f"{name}/model/{path.name}")
    # Argos Translate does not end a line by itself.
    config = json.loads((folder / "config.json").read_text()) | {"add_source_eos": True}
    archive.writestr(f"{name}/model/config.json", json.dumps(config, indent=2))
print(f"wrote {runs}/{name}.argosmodel, {Path(f'{runs}/{name}.argosmodel').stat().st_size:,} bytes")
END
