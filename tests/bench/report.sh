#!/usr/bin/env bash
# bench/report.py on samples that were made up: medians, ratios, spreads, which targets are met, and the comparison with
# an earlier report. Nothing is timed.
. "$(dirname "${BASH_SOURCE[0]}")/../cmd/lib.sh"
if ! command -v python3 >/dev/null; then
  echo "skipped: no python3, which make bench needs"
  echo "result: 1 passed, 0 failed"
  exit 0
fi
S=$T/samples.jsonl
COMMIT=abc CYCLE=0
# sample EXPERIMENT SHAPE TYPE ENGINE RANKS THREADS VARIANT RESULT
sample() {
  printf '{"experiment": "%s", "shape": "%s", "type": "%s", "engine": "%s", "ranks": %s, "threads": %s, "variant": "%s", "result": {%s},
    "commit": "%s", "date": "2020-01-02", "cycle": %s}' "$@" "$COMMIT" "$CYCLE" | tr -d '\n' >>"$S"
  echo >>"$S"
}
speed() { printf '"prompt": 512, "prefill_tokens_per_s": %s, "decode_tokens_per_s": %s' "$@"; }
limits() { printf '"read_bandwidth_bytes_per_s": %s, "peak_fma_operations_per_s": %s, "peak_dot_operations_per_s": %s' "$@"; }

# machine MODEL DATE PEERS
machine() {
  printf '{"machine": {"cpu": "Made(R) Up", "family": "1", "model": "%s", "cores": 2, "isa": ["fma"], "caches": {"L2 cache": "1 MiB"},
    "numa": "1", "virtual": "no", "memory": "1 kB", "huge_pages": "never", "kernel": "0", "compiler": "cc", "mpi": "mpi", "load": 0,
    "date": "%s"}, "peers": {%s}}' "$@" | tr -d '\n'
  echo
}
machine 2 2020-01-02 '"llama.cpp": "of nowhere"' >"$S"
work='"decode_fma_operations_per_token": 1e6, "decode_dot_operations_per_token": 4e9, "weight_bytes_per_token": 1e9,
  "kv_bytes_per_token": 1e6, "prefill_fma_operations": 1e9, "prefill_dot_operations": 2e12, "prefill_weight_bytes": 4e9, "prefill_s": 9'
work=$(tr -d '\n' <<<"$work")
for i in 0 1 2; do
  CYCLE=$i
  sample types 1.1B Q4_0 mutirao 1 1 "" "$(speed 100 $((10 + i))), \"bandwidth_share\": 0.$((80 + i)), \"peak_share\": 0.6, $(limits 1e10 1e11 4e11)"
  sample types 1.1B Q4_0 llama.cpp 1 1 "" "$(speed 60 $((5 - i / 2)))"
  sample types 1.1B Q4_0 mutirao 1 2 "" "$(speed 200 20), \"bandwidth_share\": 0.86, \"peak_share\": 0.5, $(limits 2e10 2e11 8e11), $work"
  sample types 1.1B Q4_0 mutirao 2 1 "" "$(speed 190 22), $(limits 2e10 2e11 8e11)"
done
CYCLE=0
cache='"bandwidth_share": 0.9, "kv_bytes_per_token": 2' context="$cache, $(limits 1 100 400)"
sample context 1.1B Q4_0 mutirao 1 2 "" "$(speed 1 1), \"peak_share\": 0.5, $cache, $(limits 1 200 800)"
sample context 1.1B Q4_0 mutirao 1 2 "" "\"prompt\": 8192, \"prefill_s\": 16, \"prefill_fma_operations\": 200, \"prefill_dot_operations\": 2000, $context,
  \"decode_tokens_per_s\": 5, \"decode_fma_operations_per_token\": 1e6, \"decode_dot_operations_per_token\": 4e9, \"weight_bytes_per_token\": 1e9"
batch() { printf '{"batch": %s, "decode_tokens_per_s": %s, "stream_tokens_per_s": %s, "ttft_s": %s, "ttft_last_s": 4}' "$@"; }
batches() { printf '"batches": [%s, %s]' "$(batch 1 5 5 1)" "$(batch 16 "$1" 2 3)"; }
sample batch 1.1B Q8_0 mutirao 1 2 "" "$(batches 29)"
sample batch 1.1B Q8_0 llama.cpp 1 2 "" "$(batches 17)"
sample shapes 1.1B Q4_0 mutirao 1 2 "" '"shapes": [{"prompt": 1, "generate": 500, "prefill_s": 1, "decode_s": 10}, {"prompt": 1, "generate": 1000, "prefill_s": 1, "decode_s": 21}]'
sample host "1.1B, 128k ids" Q4_0 mutirao 1 2 "" '"host_share": 0.02, "tokenize_s": 0.02, "prefill_s": 2'
sample exactness 1.1B Q8_0 mutirao 2 1 "" "$(speed 100 10)"
sample exactness 1.1B Q8_0 "mutirao with plain sums" 2 1 "" "$(speed 110 10.4), \"prefill_collective_share\": 0.07, \"decode_collective_share\": 0.1"
sample load 1.1B F32 mutirao 1 2 "" '"load_gb_per_s": 3, "copy_gb_per_s": 4, "copy_used_gb_per_s": 6'
# Later, at another commit: samples of runs before are kept.
machine 2 2020-01-03 '"torch": "torch 0"' >>"$S"
COMMIT=def
# A peer that died half-way leaves fewer turns, and only those are compared.
for CYCLE in 0 1; do sample small mirim BF16 mutirao 1 2 "" "$(speed 1 $((30 + 30 * CYCLE)))"; done
sample small mirim BF16 llama.cpp 1 2 "" "$(speed 1 10)"

run 20 python3 bench/report.py "$S" "$T" -quick
check "a report" is "$status $(ls "$T" | grep -c '^2020-01-03-made-up-f1-m2-quick\.')" "0 3"
run 20 python3 bench/report.py "$S" "$T"
check "its name says which CPU" is "$status $(ls "$T" | grep -c '^2020-01-03-made-up-f1-m2\.')" "0 3"
for f in csv md svg; do cp "$T/2020-01-03-made-up-f1-m2.$f" "$T/r.$f"; done
row() { grep "^ratio,$1," "$T/r.csv" | cut -d, -f3-9; } # value, low, high, samples, operator, target, met
check "median and range of the turns' ratios" is "$(row decode/Q4_0/1x1/llama.cpp)" "2.2,2,3,3,>=,2.1,yes"
check "a share" is "$(row decode/Q4_0/1x1/bandwidth)" "0.81,0.8,0.82,3,>=,0.85,no"
check "another one" is "$(row decode/Q4_0/1x2/bandwidth)" "0.86,0.86,0.86,3,>=,0.85,yes"
check "share of the peak, on the border" is "$(row prefill/Q4_0/peak)" "0.6,0.6,0.6,3,>=,0.6,yes"
check "prefill" is "$(row prefill/Q4_0/llama.cpp)" "1.66667,1.66667,1.66667,3,>=,2,no"
check "not measured" is "$(row decode/F32/1x1/bandwidth)" ",,,0,>=,0.9,"
check "ranks: gain over the machine's own gain" is "$(row ranks/decode/Q4_0/cores)" "1,0.916667,1.1,3,>=,0.95,yes"
check "ranks: against the peak of dot products" is "$(row ranks/prefill/Q4_0/cores)" "0.95,0.95,0.95,3,>=,0.95,yes"
check "ranks against threads" is "$(row ranks/prefill/Q4_0/threads)" "0.95,0.95,0.95,3,>=,0.97,no"
# 2000 operations at 0.5 × 400 take 10 of 16 s; 200 at 0.5 × 100 would take 4 of the other 6. While the short prompt ran,
# the machine was twice as fast: its efficiency counts, not its speed.
check "cost of attention" is "$(row context/8192/attention)" "1.5,1.5,1.5,1,<=,1.5,yes"
check "bandwidth at the long context only" is "$(row context/8192/bandwidth)" "0.9,0.9,0.9,1,>=,0.85,yes"
check "batch" is "$(row batch/16)" "5.8,5.8,5.8,1,>=,6,no"
check "a batch that was not run" is "$(row batch/64)" ",,,0,>=,8,"
check "linear" is "$(row shapes/linear)" "1.05,1.05,1.05,1,<=,1.1,yes"
check "at most" is "$(row host/share)" "0.03,0.03,0.03,1,<=,0.02,no"
check "exact sums cost time" is "$(row exactness/prefill/Q8_0/2x1) $(row exactness/decode/Q8_0/2x1)" "1.1,1.1,1.1,1,<=,1.08,no 1.04,1.04,1.04,1,<=,1.05,yes"
check "loading" is "$(row load/F32/1x2/new) $(row load/F32/1x2/used) $(row load/F32/2x1/new)" \
  "0.75,0.75,0.75,1,>=,0.6,yes 0.5,0.5,0.5,1,>=,0.6,no ,,,0,>=,0.6,"
check "a peer on two ranks" is "$(row ranks/decode/xFasterTransformer/BF16)" ",,,0,>=,2,"
check "unequal turns" is "$(row small/mirim/llama.cpp)" "6,6,6,1,>=,1.3,yes"
check "figures" grep -qx "figure,types/1.1B/Q4_0/llama.cpp/1x1/512/decode_tokens_per_s,5,4,5,3,,," "$T/r.csv"
check "figures of each prompt by itself" is \
  "$(grep -cE '^figure,context/1.1B/Q4_0/mutirao/1x2/(512|8192)/(bandwidth|peak)_share,' "$T/r.csv")" 3
check "every target is a line" is "$(grep -c '^ratio,' "$T/r.csv")" "$(sed -n '/^## Targets/,/^## By/p' "$T/r.md" | grep -cE '\| (yes|no|not measured) \|$')"
check "the machine is described" grep -qF "Made(R) Up (family 1, model 2), 2 cores" "$T/r.md"
check "commits and what they measured" is "$(grep '^| Mutirão' "$T/r.md" | sed 's/^| Mutirão //; s/ |$//')" \
  "abc | 2020-01-02: types, context, batch, shapes, host, exactness, load
def | 2020-01-02: small"
check "peers of all runs" is "$(grep -c '^| peer ' "$T/r.md")" 2
check "numbers of samples" grep -qF "| decode Q4_0, 1 × 1: × llama.cpp | ≥ 2.1 | 2.200 (2.000–3.000) | 3 | yes |" "$T/r.md"
check "waiting for ranks, in the table" grep -qF "| mutirao with plain sums | 2 × 1 | 512 | 1 | 110.0 (110.0–110.0) |  | 10.4 (10.4–10.4) |  | 7 / 10 |  |" "$T/r.md"
check "a peer's batches beside ours" grep -qF "| Q8_0 | llama.cpp | 1 | 16 | 3.000 | 4.000 | 2.00 | 17.00 |" "$T/r.md"
check "loading beside copying" grep -qF "| F32 | 1 × 2 | 1 | 3.00 (3.00–3.00) | 4.00 (4.00–4.00) | 75 | 6.00 (6.00–6.00) | 50 |" "$T/r.md"
run 20 python3 bench/report.py "$S" --print
check "printed: what was measured" is "$status $(grep -c '^| ' "$T/out")" "0 $(($(grep -c '^ratio,.*,\(yes\|no\)$' "$T/r.csv") + 2))"
check "the plot is XML" python3 -c "import sys, xml.etree.ElementTree as e; e.parse(sys.argv[1])" "$T/r.svg"
check "the plot has its points" is "$(grep -c '<circle' "$T/r.svg") $(grep -c '>Q4_0 at 8192<' "$T/r.svg")" "3 1"

# check_with PERCENT: against a report of this CPU.
check_with() { run 20 python3 bench/report.py "$S" --check "$1" "$T/0/2020-01-02-made-up-f1-m2.csv"; }
before() { sed "$@" "$T/r.csv" >"$T/0/2020-01-02-made-up-f1-m2.csv"; }
mkdir "$T/0"
before ""
check_with 10
check "the same is no regression" is "$status $(grep -c '^ok' "$T/out") $(grep -c '^WORSE' "$T/out")" \
  "0 $(grep -c '^ratio,[^,]*,[0-9]' "$T/r.csv") 0"
before 's|^ratio,batch/16,5.8|ratio,batch/16,6.6|'
check_with 10
check "12 % less is one" is "$status $(grep '^WORSE' "$T/out" | awk '{ print $2 }')" "1 batch/16"
# Of several reports the last of this CPU counts, though others be younger.
cp "$T/r.csv" "$T/0/2020-01-01-made-up-f1-m2.csv"
cp "$T/r.csv" "$T/0/2020-01-05-made-up-f1-m3.csv"
run 20 python3 bench/report.py "$S" --check 10 "$T"/0/*.csv
check "the last report of this CPU" is "$status $(grep '^WORSE' "$T/out" | awk '{ print $2 }')" "1 batch/16"
mv "$T/0/2020-01-02-made-up-f1-m2.csv" "$T/0/2020-01-06-made-up-f1-m3.csv"
rm "$T/0/2020-01-01-made-up-f1-m2.csv"
run 20 python3 bench/report.py "$S" --check 10 "$T"/0/*.csv
check "another CPU's: worse is said, but no failure" is \
  "$status $(grep -c '^WORSE' "$T/out") $(tail -n 1 "$T/out")" "0 1 That is another CPU (this one is made-up-f1-m2): no failure."
before 's|^ratio,batch/16,5.8|ratio,batch/16,6.6|'
# One good turn of three: the median may be bad luck.
for v in 5.8 5.9 6.7; do CYCLE=$v sample batch 1.1B Q8_0 mutirao 1 2 "" "$(batches $(awk "BEGIN { print 5 * $v }"))"; done
check_with 10
check "12 % less, but not in the best turn, is none" is "$status" 0
head -n -3 "$S" >"$T/fewer" && mv "$T/fewer" "$S"
check_with 15
check "with 15 % allowed it is none" is "$status" 0
before 's|^ratio,host/share,0.03|ratio,host/share,0.02|'
check_with 10
check "more of what should be little is one" is "$status $(grep '^WORSE' "$T/out" | awk '{ print $2 }')" "1 host/share"
before -n 1p
check_with 10
check "nothing to compare is a failure" is "$status" 1

machine 3 2020-01-04 "" >>"$S"
run 20 python3 bench/report.py "$S" "$T"
check "samples of two CPUs make no report" is "$status $(grep -c 'two CPUs, made-up-f1-m2 and made-up-f1-m3' "$T/err")" "1 1"
finish
