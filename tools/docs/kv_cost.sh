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
gnuplot <<PLOT
set terminal svg size 640,380 font "sans-serif,13" background "white"
set output "$out.svg"
set datafile separator ","
set key top left
set grid
set xlabel "output tokens"
set ylabel "CPU seconds, 1 rank, 1 thread"
plot "$out.csv" using 1:5 skip 1 with linespoints lw 2 pt 7 ps 0.5 title "--no-kv-cache: everything again for each token", \
     "$out.csv" using 1:4 skip 1 with linespoints lw 2 pt 7 ps 0.5 title "with the KV cache"
PLOT
