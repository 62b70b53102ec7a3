#!/usr/bin/env bash
# bench/synth: its models load in every type, with a tokenizer, and have the same bits on 1 and 2 ranks.
. "$(dirname "${BASH_SOURCE[0]}")/../cmd/lib.sh"
SYNTH=$BUILD/bench/synth
small=(--hidden 256 --layers 2 --heads 4 --kv-heads 2 --ffn 512 --vocab 512 --context 64)

for type in F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4; do
  run 20 "$SYNTH" "${small[@]}" --type $type --out "$T/$type.gguf"
  check "$type is written" ok
  for n in 1 2; do
    m logits -m "$T/$type.gguf" -n $n --ids 1,300,301,302,77 --out "$T/$type.$n"
    check "$type on $n ranks: finite logits" is "$status $(stat -c %s "$T/$type.$n")" "0 $((5 * 512 * 4))"
  done
  check "$type: the same bits on 1 and 2 ranks" cmp "$T/$type.1" "$T/$type.2"
  # They spread: a model of zeros would pass all else.
  check "$type: logits differ" holds "$(od -An -v -tx4 -w4 "$T/$type.1" | sort -u | wc -l) > 2000"
done

run 20 "$SYNTH" "${small[@]}" --type Q4_0 --out "$T/again.gguf"
check "the same seed gives the same bytes" cmp "$T/Q4_0.gguf" "$T/again.gguf"
run 20 "$SYNTH" "${small[@]}" --type Q4_0 --seed 2 --out "$T/again.gguf"
check "another seed others" not cmp "$T/Q4_0.gguf" "$T/again.gguf"

echo "hello world, 12 é" >"$T/text"
timeout 20 "$M" tokenize -m "$T/F32.gguf" --no-special <"$T/text" >"$T/ids"
timeout 20 "$M" tokenize -m "$T/F32.gguf" --decode <"$T/ids" >"$T/back"
check "its tokenizer is without loss" cmp <(tr -d '\n' <"$T/text") <(tr -d '\n' <"$T/back")

run 5 "$SYNTH" --type Q9_9 --out "$T/no"
check "an unknown type" is "$status" 2
run 5 "$SYNTH" "${small[@]}" --type Q4_K --hidden 192 --out "$T/no"
check "blocks that do not fit" is "$status" 2
run 5 "$SYNTH" "${small[@]}" --out "$T/none/no"
check "no such directory" is "$status" 1
check "nothing is left of those" is "$(ls "$T" | grep -c '^no')" 0
finish
