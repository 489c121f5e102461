#!/usr/bin/env bash
# Writes the seeds of the fuzz targets for settings, records, corpora, tokenisers, caches and folders:
#
#     fuzz/seeds.sh target/release/train
set -euo pipefail
train=$(realpath "$1")
seeds=$(realpath "$(dirname "$0")")/seeds
families=$(realpath "$(dirname "$0")/../crates/transformer/tests/fixtures/families")
mkdir -p "$seeds"/{cache,checkpoint,config,corpus,folder,tokenizer}
cd "$(mktemp -d)"
# Copies a file without the names of this machine.
plain() { sed -e "s#$PWD#/corpora#g" -e "s#$(uname -n)#host#g" -e "s#$train#train#g" "$1" >"$2"; }
size="--d-model 4 --heads 1 --d-ff 4 --layers 1 --steps 2 --eval-every 1 --quiet"
"$train" fit $size --symbols 9 --max-length 3 --eval-lengths 2 --sequences 1 --run-dir copy >/dev/null
for kind in bpe unigram word char; do
  printf 'ab ba\tba ab\nab\tba\ncd ab\tab cd\n' >"$kind.tsv"
  "$train" fit --task text --preset tiny $size --tokenizer "$kind" --train "$kind.tsv" \
    --valid "$kind.tsv" --cache "cache-$kind" --run-dir "$kind" >/dev/null
  cp "$(find "$kind" -name '*tokenizer.json' | sort | head -n 1)" "$seeds/tokenizer/$kind"
done
plain copy/config.json "$seeds/config/copy.json"
plain word/config.json "$seeds/config/text.json"
"$train" init --task text >"$seeds/config/text.toml"
"$train" init --task copy >"$seeds/config/copy.toml"
for name in metrics.jsonl status.json lengths.json environment.json summary.json config.json; do
  plain "copy/$name" "$seeds/checkpoint/$name"
done
for name in manifest.json state.json; do
  plain "copy/checkpoints/step-2/$name" "$seeds/checkpoint/$name"
done
printf 'a\tb\nc d\te\tf\n\n' >"$seeds/corpus/table"
printf '{"source":"a","target":"b"}\n{"a":{"b":"x"},"c":"y\\ud83d\\ude00"}\n' >"$seeds/corpus/objects"
printf 'a\tb\n' | gzip -n >"$seeds/corpus/gzip"
pairs=(cache-char/pairs-*)
for which in 0 1 2; do
  names=(manifest.json index tokens)
  { printf "\\x0$which"; cat "${pairs[0]}/${names[$which]}"; } >"$seeds/cache/${names[$which]}"
done
which=0
for family in bart m2m_100 t5; do
  for name in config.json generation_config.json tokenizer.json; do
    # The first byte says which file it is.
    { printf "\\x$(printf %02x "$which")"; cat "$families/$family/$name"; } >"$seeds/folder/$family-$name"
    which=$((which + 1))
  done
done
