#!/usr/bin/env bash
# What the KV cache saves: CPU seconds of one rank with one thread for answers of growing length, with and without it.
# Writes docs/img/kv-cost.csv and, where gnuplot is installed, docs/img/kv-cost.svg. CPU seconds, not seconds on the
# clock, so that other work on the machine disturbs little.
#   tools/docs/kv_cost.sh [MODEL]
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
model=${1:-models/mirim} out=docs/img/kv-cost
PATH=${BUILD:-build}/bin:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
TIMEFORMAT='%U %S'

# CPU seconds of one run; its ids go to $work/$1.
seconds() {
  local name=$1 length=$2
  shift 2
  { time mutirao generate -q -n 1 -t 1 -m "$model" --ids 1,2,3,4,5,6,7,8 --max-tokens "$length" --temperature 0 --ignore-eos \
    --ids-out "$work/$name" "$@" >/dev/null; } 2>&1 | awk '{ printf "%.2f", $1 + $2 }'
}

echo "output_tokens,rows_with_cache,rows_without,cpu_s_with_cache,cpu_s_without" >$out.csv
for length in 1 32 64 128 192 256 384 512; do
  with=$(seconds with $length)
  without=$(seconds without $length --no-kv-cache)
  cmp "$work/with" "$work/without"
  # 8 rows of the prompt, then one a token; without cache every pass takes all rows so far.
  echo "$length,$((8 + length - 1)),$((8 * length + length * (length - 1) / 2)),$with,$without" | tee -a $out.csv
done
command -v gnuplot >/dev/null || exit 0
gnuplot tools/docs/kv_cost.gp
