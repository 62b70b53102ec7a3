#!/usr/bin/env bash
# Ranks that are started wrongly, differ, die or lack shared memory; more ranks than cores.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
ids=1,2,3,4,5
r logits -m "$LLAMA" --ids $ids --out "$T/ref"
check "reference" ok

# ---- more ranks and threads than cores (D3, D7, D8) ------------------------------------------------------------------------
m logits -m "$LLAMA" -n 8 -t 2 --ids $ids --out "$T/l"
check "8 ranks of 2 threads end" ok
check "with the same bytes: more ranks than KV heads, and than cores" cmp "$T/l" "$T/ref"
for model in "$MIRIM" "$TEXT"; do
  many=$(seq -s, 1 70)
  m logits -m "$model" -n 1 -t 1 --ids "$many" --out "$T/one"
  m generate -m "$model" -n 1 -t 1 --ids "$many" --max-tokens 12 --temperature 0 --ignore-eos --ids-out "$T/ids1"
  for how in "-n 1 -t 2" "-n 1 -t 7" "-n 1 -t 33" "-n 1 -t 128" "-n 2 -t 64" "-n 3 -t 128"; do
    m logits -m "$model" $how --ids "$many" --out "$T/l"
    check "$model $how: logits" is "$status $(cmp "$T/l" "$T/one" && echo same)" "0 same"
    m generate -m "$model" $how --ids "$many" --max-tokens 12 --temperature 0 --ignore-eos --ids-out "$T/ids"
    check "$model $how: text" is "$status $(cmp "$T/ids" "$T/ids1" && echo same)" "0 same"
  done
done
m logits -m "$MIRIM" -n 1 -t 129 --ids 1 --out "$T/l"
check "129 threads" ok
[ "$(nproc)" -ge 129 ] || check "more threads than cores are warned of" says "warning: 129 threads, but this process may use"
run 60 mpirun --bind-to core --oversubscribe -n 2 "$M" logits -m "$LLAMA" -t 2 --ids $ids --out "$T/l"
if [ $status -eq 0 ]; then
  check "ranks that mpirun bound to a core each" cmp "$T/l" "$T/ref"
else
  echo "skipped ranks bound by mpirun: it refuses here"
fi

# ---- a long prompt (D15): 30,000 tokens over 2 ranks, in a model whose layers see 8 ---------------------------------------
cp -R "$MODELS/mistral-swa8-bf16" "$T/long"
sed 's/"max_position_embeddings": [0-9]*/"max_position_embeddings": 65536/' \
  "$MODELS/mistral-swa8-bf16/config.json" >"$T/long/config.json"
awk 'BEGIN { srand(1); for (i = 0; i < 30000; i++) printf "%s%d", i ? "," : "", int(rand() * 250) }' >"$T/long.ids"
r logits -m "$T/long" --ids @"$T/long.ids" --last --out "$T/long.1"
check "30,000 tokens on one rank" ok
m logits -m "$T/long" -n 2 --ids @"$T/long.ids" --last --out "$T/long.2"
check "30,000 tokens on 2 ranks" ok
check "with the same bytes" cmp "$T/long.1" "$T/long.2"

# ---- ranks that differ (D10) -------------------------------------------------------------------------------------------------
run 20 $MPIRUN -n 1 "$M" logits -m "$LLAMA" --ids $ids : -n 1 "$M" logits -m $MODELS/llama-odd-tied-bf16 --ids $ids
check "another model on one rank is refused" is $status 2
check "the rank is named" says "rank 1 on .*another command, model or options"
check "nothing was written" silent
run 20 $MPIRUN -n 1 "$M" logits -m "$LLAMA" --ids $ids : -n 1 "$M" generate -m "$LLAMA" --ids $ids --max-tokens 4
check "another command on one rank is refused" is "$status $(grep -c "rank 1 on .*another command, model or options" "$T/err")" "2 1"
run 20 $MPIRUN -n 1 "$M" logits -m "$TEXT" --ids $ids : -n 1 "$M" logits -m "$TEXT" --ids $ids --activations int8
check "other activations on one rank are refused" is "$status $(grep -c "rank 1 on .*another command, model or options" "$T/err")" "2 1"
run 20 $MPIRUN -n 1 "$M" logits -m "$LLAMA" --ids $ids : -n 1 "$M" logits -m "$LLAMA" --ids $ids --reduce-inside two-phase
check "another algorithm on one rank is refused" is "$status $(grep -c "rank 1 on .*another command" "$T/err")" "2 1"
run 20 $MPIRUN -n 2 "$M" logits -m "$LLAMA" --ids $ids --out "$T/l" : -n 1 "$M" logits -m "$LLAMA" --ids $ids --out "$T/l" --max-memory 64K
check "a rank that alone lacks memory ends all" is $status 1
check "and is named" says "rank 2 on .*needs [0-9.]+ MiB"
run 30 $MPIRUN -n 1 "$M" logits -m "$LLAMA" --ids $ids --isa ref --out "$T/l" : -n 1 "$M" logits -m "$LLAMA" --ids $ids --out "$T/l"
check "kernels of different instruction sets go together" is "$status $(cmp "$T/l" "$T/ref" && echo same)" "0 same"

# ---- the exact sum, each way --------------------------------------------------------------------------------------------------
for nodes in 1 2; do
  for inside in one-phase two-phase; do
    for between in doubling scatter; do
      MUTIRAO_FAKE_NODES=$nodes m logits -m "$LLAMA" -n 4 -t 1 --ids $ids --out "$T/l" \
        --reduce-inside $inside --reduce-between $between
      check "$nodes nodes, $inside, $between: the same bytes" cmp "$T/l" "$T/ref"
    done
  done
done

# A step of many rows is cut in two between nodes: one half's sums travel while the other half computes. That it was is
# counted where people see it.
many=$(seq 1 400 | awk '{ printf "%s%d", (NR > 1 ? "," : ""), 1 + $1 * 7 % 250 }')
for model in $MODELS/mistral-swa8-bf16 tests/data/gguf/tiny-llama-Q4_0.gguf tests/data/gguf/tiny-llama-Q4_K.gguf \
  $MODELS/gemma3-swa8-bf16 $MODELS/llama-bias-bf16; do
  r logits -m "$model" --ids "$many" --out "$T/many"
  check "$model: 400 rows on one rank" ok
  for ranks in 2 3 5; do
    MUTIRAO_FAKE_NODES=2 m logits -m "$model" -n $ranks -t 2 --ids "$many" --chunk 400 --out "$T/l"
    check "$model: $ranks ranks on 2 nodes, in two tiles: the same bytes" cmp "$T/l" "$T/many"
  done
done
how="-m $LLAMA -n 3 -t 1 --ids $many --max-tokens 3 --temperature 0 --ignore-eos"
m generate $how --chunk 400 --ids-out "$T/ids1"
check "on one node no step is cut" is "$(grep -c tiles "$T/err")" 0
MUTIRAO_FAKE_NODES=2 m generate $how --chunk 400 --ids-out "$T/ids"
check "between nodes one of three is" says "3 passes through the layers on 3 ranks, 1 of them in two tiles; read:"
check "to the same text" cmp "$T/ids" "$T/ids1"
MUTIRAO_FAKE_NODES=2 m generate $how --chunk 30 --ids-out "$T/ids"
check "short ones are not" is "$(grep -c tiles "$T/err")" 0
MUTIRAO_FAKE_NODES=2 m trace -m $LLAMA -n 2 --ids "$many" --chunk 400 --tokens 2 --json
cp "$T/out" "$T/trace"
check "trace says which" is "$(json "$T/trace" steps.0.ranks.1.tiled_steps) $(json "$T/trace" steps.1.ranks.1.tiled_steps)" "1 0"

# ---- started wrongly (D6) ----------------------------------------------------------------------------------------------------
SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=4 run 20 "$M" logits -m "$LLAMA" --ids $ids
check "srun without PMIx is refused" is $status 2
check "with the hint" says "--mpi=pmix"
SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=4 run 20 "$M" logits -m "$LLAMA" -n 1 --ids $ids --out "$T/l"
check "a plain batch script is none of that" is "$status $(cmp "$T/l" "$T/ref" && echo same)" "0 same"
# Inside another MPI program's rank the launcher starts afresh only as that rank: -n must agree.
run 20 $MPIRUN -n 2 "$M" logits -m "$LLAMA" -n 2 --ids $ids --out "$T/l"
check "mpirun -n 2 with -n 2" is "$status $(cmp "$T/l" "$T/ref" && echo same)" "0 same"
run 20 env PATH=/nonexistent "$M" logits -m "$LLAMA" -n 2 --ids $ids
check "no mpirun: which package has it" is "$status $(grep -c 'openmpi-bin' "$T/err")" "1 1"

# ---- a rank dies (D1) -----------------------------------------------------------------------------------------------------------
"$TOOL" model "$T/long" 6 256 4 2 512 512 200000
$MPIRUN -n 3 "$RANK" generate -m "$T/long" --ids 1,2,3 --ctx 50000 --max-tokens 40000 --ignore-eos --temperature 0 -t 1 \
  >"$T/out" 2>"$T/err" &
job=$!
for i in $(seq 100); do [ "$(wc -c <"$T/out")" -gt 40 ] && break; sleep 0.1; done
victim=$(pgrep -P $job | tail -n 1)
check "a job of 3 ranks runs" [ "$(pgrep -P $job | wc -l)" -eq 3 ]
kill -9 "$victim"
start=$SECONDS
( sleep 20; kill -9 $job ) 2>/dev/null &
guard=$!
wait $job
status=$?
kill $guard 2>/dev/null
check "all end within seconds" holds "$SECONDS - $start < 10"
check "with a failure" [ $status -ne 0 ]

# ---- little shared memory ---------------------------------------------------------------------------------------------------------
for size in 64m 256k; do
  run 60 unshare -m sh -c "mount -t tmpfs -o size=$size tmpfs /dev/shm && exec '$M' logits -m '$LLAMA' -n 3 --ids $ids --out '$T/l'"
  if says "unshare|mount:"; then
    echo "skipped /dev/shm of $size: no right to mount"
  else
    check "/dev/shm of $size: works or says what is wrong" holds "$status == 0 || $(grep -c 'shm' "$T/err") > 0"
    [ $status -ne 0 ] || check "/dev/shm of $size: the same bytes" cmp "$T/l" "$T/ref"
  fi
done

# ---- temperature 1 on several ranks: rank 0 samples (D11) ---------------------------------------------------------------------------
m generate -m "$LLAMA" -n 3 --ids 1,2,3 --max-tokens 40 --temperature 1 --ids-out "$T/sampled"
check "sampling without a seed does not deadlock" is "$status $(tr ',' '\n' <"$T/sampled" | wc -l)" "0 40"
finish
