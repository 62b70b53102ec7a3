#!/usr/bin/env bash
# score and logits: one number by one recipe, whatever the ranks, chunks, instruction sets and commands.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ids=1,7,300,22,5,9,118,64,200,31,2,77,140,19,256,3,88,41,12,305

# ---- generate and score -----------------------------------------------------------------------------------------------
r generate -m "$TEXT" --ids 5,6,7,8 --max-tokens 24 --temperature 0.9 --seed 4 --repetition-penalty 1.3 --ignore-eos --json
check "generate" ok
json "$T/out" choices.0.logprobs >"$T/generated"
all=5,6,7,8,$(json "$T/out" choices.0.ids | paste -sd,)
for n in 1 2 3; do
  m score -m "$TEXT" -n $n --ids "$all" --per-token --json
  check "$n ranks: score" ok
  check "$n ranks: score has the log-probabilities of generate, digit for digit" \
    cmp <(json "$T/out" logprobs | tail -n 24) "$T/generated"
  cp "$T/out" "$T/score$n"
done
check "score on 2 ranks is that on 1" cmp "$T/score1" "$T/score2"
check "score on 3 ranks is that on 1" cmp "$T/score1" "$T/score3"
check "27 tokens are scored" is "$(json "$T/score1" tokens)" 27
sum=$(json "$T/score1" logprobs | awk '{ s += $1 } END { printf "%.12g", s }')
check "the sum is the sum" near "$(json "$T/score1" logprob_sum)" "$sum" 1e-9
check "perplexity = exp(mean negative log-probability)" \
  near "$(json "$T/score1" perplexity)" "$(awk "BEGIN { printf \"%.15g\", exp(-($sum) / 27) }")" 1e-9
r score -m "$TEXT" --ids "$all" --per-token
check "for people: a line a token and one for all" is "$(wc -l <"$T/out")" 28
check "with the perplexity" grep -q "^27 tokens, .*perplexity" "$T/out"
r score -m "$TEXT" -p "Hello world, how are you" --json
check "score of a text" holds "$(json "$T/out" perplexity) > 1"
printf 'Hello world, how are you' >"$T/text"
cp "$T/out" "$T/by-prompt"
r score -m "$TEXT" --file "$T/text" --json
check "--file is --prompt" cmp "$T/out" "$T/by-prompt"

# ---- the window -------------------------------------------------------------------------------------------------------
# Window 12, stride 5: token i is scored by the first window that reaches it, so it sees what that window holds.
r score -m "$LLAMA" --ids $ids --window 12 --stride 5 --per-token --json
check "sliding window" ok
json "$T/out" logprobs >"$T/windowed"
check "every token is scored once" is "$(wc -l <"$T/windowed")" 19
r score -m "$LLAMA" --ids "$(cut -d, -f1-12 <<<$ids)" --per-token --json
check "first window" cmp <(json "$T/out" logprobs) <(head -n 11 "$T/windowed")
r score -m "$LLAMA" --ids "$(cut -d, -f6-17 <<<$ids)" --per-token --json
check "second window: its last 5" cmp <(json "$T/out" logprobs | tail -n 5) <(sed -n 12,16p "$T/windowed")
r score -m "$LLAMA" --ids "$(cut -d, -f11-20 <<<$ids)" --per-token --json
check "last window: what is left" cmp <(json "$T/out" logprobs | tail -n 3) <(sed -n 17,19p "$T/windowed")
long=$(seq -s, 1 300),$(seq -s, 1 300)
r score -m "$LLAMA" --ids "$long" --json
check "a text longer than the context" is "$status $(json "$T/out" tokens)" "0 599"
r score -m "$LLAMA" --ids $ids --window 600
check "a window beyond the context is wrong usage" is "$status" 2
r score -m "$LLAMA" --ids $ids --window 8 --stride 8
check "a stride that skips tokens is wrong usage" is "$status" 2
r score -m "$LLAMA" --ids 1
check "one token has nothing to score" is "$status" 2

# ---- logits -----------------------------------------------------------------------------------------------------------
lg() { m logits -m "$LLAMA" --ids $ids "$@"; }
lg -n 1 --out "$T/l1"
check "logits" ok
check "the file is [20, 320] f32, nothing else" is "$(wc -c <"$T/l1")" $((20 * 320 * 4))
lg -n 1 --last --out "$T/last"
check "--last is the last row" cmp "$T/last" <(tail -c 1280 "$T/l1")
lg -n 1
check "standard output by default" cmp "$T/out" "$T/l1"
for c in 1 3 7 20; do
  lg -n 1 --chunk $c --out "$T/l"
  check "chunk $c" cmp "$T/l" "$T/l1"
done
lg -n 1 -t 3 --out "$T/l"
check "3 threads" cmp "$T/l" "$T/l1"
for n in 2 3 5; do
  lg -n $n --chunk $((n + 1)) --out "$T/l"
  check "$n ranks" cmp "$T/l" "$T/l1"
done
run 60 $MPIRUN -n 3 "$M" logits -m "$LLAMA" --ids $ids --out "$T/l"
check "mpirun -n 3 mutirao" cmp "$T/l" "$T/l1"
run 60 $MPIRUN -n 2 "$M" logits -m "$LLAMA" -n 3 --ids $ids --out "$T/l"
check "mpirun -n 2 with -n 3 is refused" is "$status" 2
for isa in ref avx2 avxvnni avx512 avx512vnni neon neondot; do
  r logits -m "$LLAMA" --ids $ids --isa $isa --out "$T/l"
  if [ $status -eq 0 ]; then
    check "--isa $isa" cmp "$T/l" "$T/l1"
    r logits -m "$TEXT" --ids 5,6,7,8,9 --isa $isa --out "$T/q-$isa"
    check "--isa $isa, quantized" cmp "$T/q-$isa" "$T/q-ref"
  else
    check "--isa $isa is not there, in one line" is "$status $(wc -l <"$T/err") $(grep -c "$isa" "$T/err")" "2 1 1"
    r logits -m "$LLAMA" --ids $ids --isa $isa --backend openblas --out "$T/l"
    check "--isa $isa is not there for the rest either" is $status 2
    echo "skipped --isa $isa: this CPU lacks it"
  fi
done
m logits -m "$TEXT" -n 3 --ids 5,6,7,8,9 --out "$T/q"
check "quantized, 3 ranks" cmp "$T/q" "$T/q-ref"

# ---- cache types: other numbers, each the same on any number of ranks -------------------------------------------------
for kv in f32 f16 q8; do
  r logits -m "$LLAMA" --ids $ids --kv-type $kv --out "$T/kv-$kv"
  check "--kv-type $kv" ok
  m logits -m "$LLAMA" -n 3 --ids $ids --kv-type $kv --chunk 4 --out "$T/l"
  check "--kv-type $kv, 3 ranks" cmp "$T/l" "$T/kv-$kv"
done
check "f16 is the default" cmp "$T/kv-f16" "$T/l1"
check "f32 is not f16" not cmp -s "$T/kv-f32" "$T/kv-f16"
check "q8 is not f16" not cmp -s "$T/kv-q8" "$T/kv-f16"

# ---- activations: likewise, and only quantized weights see them ---------------------------------------------------------
r logits -m "$TEXT" --ids 5,6,7,8,9 --activations int8 --out "$T/int8"
check "--activations int8" ok
check "int8 is not int16" not cmp -s "$T/int8" "$T/q-ref"
r logits -m "$TEXT" --ids 5,6,7,8,9 --activations int16 --out "$T/l"
check "int16 is the default" cmp "$T/l" "$T/q-ref"
for n in 2 3; do
  m logits -m "$TEXT" -n $n -t 2 --chunk 2 --ids 5,6,7,8,9 --activations int8 --out "$T/l"
  check "int8, $n ranks of 2 threads" cmp "$T/l" "$T/int8"
done
printf 'activations: int8\n' >"$T/config.yaml"
m logits -m "$TEXT" --config "$T/config.yaml" -n 1 --ids 5,6,7,8,9 --out "$T/l"
check "int8 by configuration" cmp "$T/l" "$T/int8"
r logits -m "$LLAMA" --ids $ids --activations int8 -v --out "$T/l"
check "f32 weights do not see int8" cmp "$T/l" "$T/l1"
check "-v says so" says "activations f32"

# ---- OpenBLAS ---------------------------------------------------------------------------------------------------------
# Near, not equal: log-probabilities agree. The cache is f32: one that rounds to f16 turns a last bit into 2^-11 wherever
# a value lies between two halves, whichever product was nearer to the truth.
near_exact() { # NAME
  check "$1 is near" is "$(json "$T/out" logprobs | paste - "$T/exact" | awk '{ d = $1 - $2; if (d < 0) d = -d
    if (!(d <= 5e-5)) bad++ } END { print NR, bad + 0 }')" "19 0"
}
blas=(-m "$LLAMA" --ids $ids --kv-type f32 --per-token --json --backend openblas)
r score -m "$LLAMA" --ids $ids --kv-type f32 --per-token --json
json "$T/out" logprobs >"$T/exact"
for n in 1 2 3; do
  m score -n $n "${blas[@]}"
  check "openblas, $n ranks" ok
  check "openblas says that it is inexact, $n ranks" says "warning: .*openblas.*last bits may differ"
  check "once" is "$(grep -c openblas "$T/err")" 1
  near_exact "openblas, $n ranks"
done

# Its core type: one that fits this CPU, and one without what every CPU that we run on has. Both compute the same.
fitting=Haswell
grep -q avx512vl /proc/cpuinfo && fitting=SkylakeX
[ "$(uname -m)" = x86_64 ] || fitting=CORTEXA57
for n in 1 2; do
  OPENBLAS_CORETYPE=$fitting m score -n $n "${blas[@]}"
  check "a core type that fits is not mentioned, $n ranks" not says CORETYPE
  near_exact "core type $fitting, $n ranks"
  [ "$(uname -m)" = x86_64 ] || continue
  OPENBLAS_CORETYPE=Prescott m score -n $n "${blas[@]}"
  check "a core type that does not fit is named, with a better one, $n ranks" \
    says "warning: OpenBLAS takes this CPU for 'Prescott': .*GFLOP/s.* OPENBLAS_CORETYPE=$fitting "
  check "once a host" is "$(grep -c CORETYPE "$T/err")" 1
  near_exact "core type Prescott, $n ranks"
done
r score -m "$LLAMA" --ids $ids
check "without OpenBLAS no word of it" not says "[Oo]pen[Bb][Ll][Aa][Ss]|OPENBLAS"
if [ $fitting = Haswell ]; then
  OPENBLAS_CORETYPE=SkylakeX r score "${blas[@]}"
  check "a core type beyond this CPU is refused" says "SkylakeX, which needs AVX-512.* OPENBLAS_CORETYPE=Haswell"
  check "with its status" is "$status" 3
else
  echo "skipped a core type beyond this CPU: it has AVX-512"
fi
r logits -m "$TEXT" --ids 5,6,7,8,9 --backend openblas --out "$T/l"
check "openblas leaves quantized weights to the exact kernels" cmp "$T/l" "$T/q-ref"
finish
