#!/usr/bin/env bash
# The build with plain f32 sums, which only bench/measure.py uses: it computes the same model, not the same bits, and
# no program for users is it. Nothing is timed.
. "$(dirname "${BASH_SOURCE[0]}")/../cmd/lib.sh"
PLAIN=$BUILD/plain-sums/mutirao
ids=$(awk 'BEGIN { for (i = 1; i <= 200; i++) printf "%d%s", i * i * 7 % 320, i < 200 ? "," : "" }')

for n in 1 2 3; do
  m score -m "$LLAMA" -n $n --ids $ids --kv-type f32 --per-token --json
  json "$T/out" logprobs >"$T/exact"
  for chunk in 200 60; do # sums in pieces, and sums that every rank makes for itself
    run 60 "$PLAIN" score -m "$LLAMA" -n $n --chunk $chunk --ids $ids --kv-type f32 --per-token --json
    check "$n ranks, chunks of $chunk: it says what it is" says "warning: plain f32 sums"
    json "$T/out" logprobs >"$T/plain"
    check "$n ranks, chunks of $chunk: near" is "$(paste "$T/plain" "$T/exact" | awk '{ d = $1 - $2; if (d < 0) d = -d
      if (!(d <= 5e-5)) bad++ } END { print NR, bad + 0 }')" "199 0"
    check "$n ranks, chunks of $chunk: not equal" not cmp "$T/plain" "$T/exact"
  done
done
check "the users' program has none of it" is "$(nm "$RANK" | grep -c mt_plain)" 0
check "which would be seen" holds "$(nm "$BUILD/plain-sums/mutirao-rank" | grep -c mt_plain) > 0"

if command -v python3 >/dev/null; then
  tiny="--hidden 256 --layers 2 --heads 4 --kv-heads 2 --ffn 512 --vocab 512 --context 64"
  run 180 python3 bench/measure.py --out "$T/samples" --dir "$T" --build "$BUILD" --only exactness load --types Q8_0 --turns 2 \
    --prompt 20 --generate 8 --synth "$tiny"
  check "exactness and loading are measured" is "$status $(grep -c '"experiment"' "$T/samples")" "0 $((2 * (4 + 3)))"
  run 20 python3 bench/report.py "$T/samples" --print
  for row in "prefill Q8_0, 1 × 1" "decode Q8_0, 1 × 1" "prefill Q8_0, 2 × 1" "decode Q8_0, 2 × 1"; do
    check "with a line for $row" is "$(grep -c "^| $row: time with exact sums .* | 2 | \(yes\|no\) |$" "$T/out")" 1
  done
else
  echo "skipped the comparison: no python3"
fi
finish
