#!/usr/bin/env bash
# Memory: what inspect predicts, what a rank takes, what is refused before it is taken; bytes read at load.
# Bounds: the peak of a rank, less that of the smallest model on as many ranks (the program itself), is within 10 % + 6 MiB
# of the prediction; of a model of 316 MB, within 5 %. A second copy of the weights at any time would be twice too much.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

BIG=$T/big # 27 million parameters in bf16, 52 MiB
"$TOOL" model "$BIG" 8 512 8 4 1536 4096 4096 || exit 1
file=$(stat -c %s "$BIG/model.safetensors")
ids=$(seq -s, 1 64)
predict() { # MODEL RANKS CTX JSON-PATH…
  "$M" inspect -m "$1" -n "$2" --ctx "$3" --json >"$T/inspect" && json "$T/inspect" "$4"
}

# ---- inspect --------------------------------------------------------------------------------------------------------------
m inspect -m "$BIG" -n 3 --json
check "inspect" ok
cp "$T/out" "$T/i"
check "KV law: 2 · layers · KV heads · head size · bytes" is "$(json "$T/i" kv_bytes_per_token)" $((2 * 8 * 4 * 64 * 2))
check "file size" is "$(json "$T/i" file_bytes)" "$file"
check "parameters" is "$(json "$T/i" parameters)" $((4096 * 512 + 512 + 8 * (2 * 512 + 2 * 512 * 512 + 2 * 256 * 512 + 3 * 1536 * 512)))
check "heads tile" is "$(for r in 0 1 2; do json "$T/i" ranks.$r.heads_begin; json "$T/i" ranks.$r.heads_end; done | paste -sd' ')" "0 3 3 6 6 8"
check "FFN tiles" is "$(json "$T/i" ranks.0.ffn_begin) $(json "$T/i" ranks.2.ffn_end)" "0 1536"
check "the vocabulary tiles" is "$(json "$T/i" ranks.0.vocab_begin) $(json "$T/i" ranks.2.vocab_end)" "0 4096"
m inspect -m "$BIG" --kv-type f32 --json
check "f32 takes twice as much" is "$(json "$T/out" kv_bytes_per_token)" $((2 * $(json "$T/i" kv_bytes_per_token)))
m inspect -m "$BIG" -n 3 --max-memory 1G
check "for people" grep -q "2 × 8 layers × 4 KV heads × 64 × f16 = 8192 bytes" "$T/out"
check "how many sequences fit" grep -qE "2k [0-9]+  4k [0-9]+" "$T/out"
m inspect -m "$BIG" -n 4 --json
totals=$(for r in 0 1 2 3; do json "$T/out" ranks.$r.total_bytes; done | paste -sd' ')
m inspect -m "$BIG" -n 4 --nodes 2 --json
more=$(for r in 0 1 2 3; do echo $(($(json "$T/out" ranks.$r.total_bytes) - $(cut -d' ' -f$((r + 1)) <<<"$totals"))); done | paste -sd' ')
sums=$((128 * 512 * 8))
check "the first rank of each of two nodes takes the other's sums: $more" \
  awk -v s=$sums '{ exit !($1 >= s && $1 < s + 1024 && $3 == $1 && $2 < 1024 && $4 < 1024) }' <<<"$more"
m inspect -m "$BIG" -n 4 --nodes 5
check "more nodes than ranks are refused" is $status 2
m inspect -m "$BIG" --max-memory 256M --json
rest=$((256 * 1048576 - $(json "$T/out" ranks.0.total_bytes) + $(json "$T/out" ranks.0.kv_bytes)))
check "as many as the law says" is "$(json "$T/out" sequences_that_fit.2048)" $((rest / (2048 * 8192)))

# ---- bytes read at load -----------------------------------------------------------------------------------------------------
# SmolLM2 is large enough to be read; the made model is small, so that vectors read by rank 0 and headers weigh more.
for n in 1 2 3 4; do
  m logits -m "$BIG" -n $n --ids 1,2,3 --last --out "$T/l$n" -v
  read=$(grep -oE '[0-9.]+ MiB read here' "$T/err" | awk '{ s += $1 } END { print s * 1048576 }')
  check "$n ranks read the file once in all" holds "$read > 0.98 * $file && $read < 1.15 * $file"
  check "$n ranks tell each" is "$(grep -c 'MiB read here' "$T/err")" $n
  check "$n ranks: the same bytes" cmp "$T/l$n" "$T/l1"
  most=$(grep -oE '[0-9.]+ MiB read here' "$T/err" | sort -g | tail -n 1 | awk '{ print $1 * 1048576 }')
  check "$n ranks: nobody reads it all" holds "$most < $file / $n * 1.3 + 1e6"
done

# ---- resident memory ----------------------------------------------------------------------------------------------------------
# A run that fails leaves no number behind, neither its own nor that of the run before, and is itself a failed check: else a
# run that was stopped by its deadline would look like one that took no memory.
peak_of() { # NAME RANKS COMMAND…: peak KiB of each rank into $T/NAME.RANK
  local name=$1 n=$2
  shift 2
  rm -f "$T/$name".[0-9]*
  run 120 $MPIRUN -n "$n" "$TOOL" peak "$T/$name" "$RANK" "$@"
  check "$name, $n ranks: runs" ok
}
kib() { # NAME.RANK
  cat "$T/$1" 2>/dev/null || echo 0
}
peak() { # MODEL RANKS NAME
  peak_of "$3" "$2" logits -m "$1" --ids "$ids" --last --out "$T/l" -t 1
}
for n in 1 2 4; do
  peak "$BIG" $n big$n
  peak "$LLAMA" $n small$n
  for r in $(seq 0 $((n - 1))); do
    took=$((1024 * ($(kib big$n.$r) - $(kib small$n.$r))))
    said=$(($(predict "$BIG" $n 64 ranks.$r.total_bytes) - $(predict "$LLAMA" $n 64 ranks.$r.total_bytes)))
    check "$n ranks: rank $r takes what inspect says" holds "$took < 1.10 * $said + 6291456 && $took > 0.90 * $said - 6291456"
    echo "rank $r of $n: took $((took >> 10)) KiB, predicted $((said >> 10)) KiB"
  done
done
weights() { predict "$BIG" "$1" 64 ranks.0.weight_bytes; }
check "a quarter of the weights on 4 ranks" near "$(weights 4)" "$(calc "$(weights 1) / 4")" 0.01
took1=$(kib big1.0) small1=$(kib small1.0) took4=$(kib big4.1) small4=$(kib small4.1)
check "a rank of 4 takes about a quarter" holds "($took4 - $small4) < 0.45 * ($took1 - $small1)"

# Large enough that nothing but weights counts; also while packed weights are kept, and from them.
LARGE=$T/large.gguf
"$BUILD/bench/synth" --out "$LARGE" --type Q8_0 --layers 6 --vocab 8000 || exit 1
ids=$(seq -s, 1 128)
for n in 1 2 3; do
  rm -rf "$T/kept"
  base=$(kib small$((n > 1 ? 2 : 1)).0)
  for start in none write read; do
    peak_of large$n $n logits -m "$LARGE" --ids "$ids" --last --out "$T/l" -t 1 \
      $([ $start = none ] || echo --pack-cache "$T/kept")
    for r in $(seq 0 $((n - 1))); do
      took=$((1024 * ($(kib large$n.$r) - base)))
      said=$(($(predict "$LARGE" $n 128 ranks.$r.total_bytes) - $(predict "$LLAMA" $n 64 ranks.$r.total_bytes)))
      check "$n ranks, $start: rank $r takes what inspect says" near $took $said 0.05
      echo "rank $r of $n, $start: took $((took >> 10)) KiB, predicted $((said >> 10)) KiB"
    done
  done
done
run 120 "$TOOL" peak "$T/alone" "$RANK" logits -m "$LARGE" --ids "$ids" --last --out "$T/l" -t 1
check "alone: runs" ok
check "one rank, program and all" near $((1024 * $(kib alone.0))) "$(predict "$LARGE" 1 128 ranks.0.total_bytes)" 0.05
rm -rf "$T/kept" "$LARGE"
ids=$(seq -s, 1 64)

# The cache: tokens that are stored take what the law says.
for n in 128 1152; do
  peak_of kv$n 1 logits -m "$BIG" --ids "$(seq -s, 1 $n)" --last --out "$T/l" --kv-type f32 --chunk 64
done
more=$((1024 * ($(kib kv1152.0) - $(kib kv128.0))))
check "1024 more tokens take 1024 times the law" near $more $((1024 * 16384)) 0.15
echo "1024 more tokens: took $more bytes, the law says $((1024 * 16384))"

# ---- refused by prediction ------------------------------------------------------------------------------------------------------
one=$(predict "$BIG" 1 64 ranks.0.total_bytes) four=$(predict "$BIG" 4 64 ranks.0.total_bytes)
limit=$(((one + four) / 2))
ids=$(seq -s, 1 64)
m logits -m "$BIG" -n 1 --ids "$ids" --out "$T/ref"
m logits -m "$BIG" -n 1 --ids "$ids" --max-memory $limit
check "1 rank refuses" is $status 1
check "and names both numbers" says "needs [0-9.]+ MiB here .*$(awk "BEGIN { printf \"%.1f\", $limit / 1048576 }") MiB are allowed"
check "in one line" is "$(grep -c . "$T/err")" 1
m logits -m "$BIG" -n 4 --ids "$ids" --max-memory $limit --out "$T/l"
check "4 ranks under the same limit run" ok
check "and give the same bytes" cmp "$T/l" "$T/ref"
limit=$((one + 8 * 1048576))
r logits -m "$BIG" --ids 1,2,3 --ctx 4096 --max-memory $limit
check "too large a cache is refused" is $status 1
fits=$(grep -oE -- '--ctx [0-9]+ fits' "$T/err" | cut -d' ' -f2)
check "the largest that fits is named" holds "${fits:-0} > 512 && ${fits:-0} < 4096"
r logits -m "$BIG" --ids 1,2,3 --ctx "${fits:-1}" --max-memory $limit --out "$T/l"
check "and fits" ok
r logits -m "$BIG" --ids 1,2,3 --ctx $((${fits:-1} + 64)) --max-memory $limit --out "$T/l"
check "and is the largest" is $status 1
r generate -m "$BIG" --ids 1,2,3 --max-memory $limit --logit-bias 5=1000 --max-tokens 2 -q
check "without --ctx the cache is cut to what fits" ok

# ---- no memory --------------------------------------------------------------------------------------------------------------------
for kib in 150000 220000 300000 500000; do
  run 20 bash -c "ulimit -v $kib; exec '$RANK' logits -m '$BIG' --ids 1,2,3 --ctx 4096 -t 1 --out '$T/l'"
  check "$kib KiB: ends in time and not by a signal" holds "$status == 0 || $status == 1 || $status == 127"
  [ $status -eq 0 ] || check "$kib KiB: one line says what is wrong" is "$(grep -c . "$T/err")" 1
done

# ---- a real model ---------------------------------------------------------------------------------------------------------------------
if [ -r "$SMOLLM2" ]; then
  file=$(stat -c %s "$SMOLLM2")
  m logits -m "$SMOLLM2" -n 3 --ids 1,2,3 --last --out "$T/l" -v
  read=$(grep -oE '[0-9.]+ MiB read here' "$T/err" | awk '{ s += $1 } END { print s * 1048576 }')
  check "SmolLM2 is read once by 3 ranks" holds "$read > 0.95 * $file && $read < 1.15 * $file"
  ids=$(seq -s, 1 64)
  for n in 1 4; do
    peak "$SMOLLM2" $n real
    for r in 0 $((n - 1)); do
      took=$((1024 * ($(kib real.$r) - $(kib small$n.$r))))
      said=$(($(predict "$SMOLLM2" $n 64 ranks.$r.total_bytes) - $(predict "$LLAMA" $n 64 ranks.$r.total_bytes)))
      echo "SmolLM2, rank $r of $n: took $((took >> 10)) KiB, predicted $((said >> 10)) KiB"
      check "SmolLM2: rank $r of $n takes what inspect says" holds "$took < 1.10 * $said + 6291456 && $took > 0.90 * $said - 6291456"
    done
  done
else
  echo "skipped SmolLM2: not at $SMOLLM2 (make model-smollm2, or MUTIRAO_SMOLLM2)"
fi
finish
