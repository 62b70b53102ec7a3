#!/usr/bin/env bash
# bench: what it counts is what the model's shape says, and its numbers fit together. No time is judged.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
key() { json "$T/out" "$1"; }

# Tiny Llama: 2 layers, hidden 256, FFN 512, 4 heads and 2 KV heads of 64, 512 ids, tied.
matrices=$((2 * (2 * 256 * 256 + 2 * 128 * 256 + 3 * 512 * 256)))
head=$((512 * 256)) keys=$((24 * 25 / 2))
for n in 1 2; do
  m bench -m "$TEXT" -n $n -t 1 --prompt 24 --generate 6 --repeat 2 --json
  check "$n ranks: one JSON object" is "$status $(key ranks)" "0 $n"
  check "bytes of weights count twice, for two planes" is "$(key prefill_dot_operations)" $((4 * (24 * matrices + head)))
  check "attention is f32" is "$(key prefill_fma_operations)" $((2 * 4 * 4 * 64 * keys))
  check "a token's operations" is "$(key decode_dot_operations_per_token)" $((4 * (matrices + head)))
  check "a token's attention" is "$(key decode_fma_operations_per_token)" $((2 * 4 * 4 * 64 * 28))
  check "one chunk reads the weights once" near "$(key prefill_weight_bytes)" "$(key weight_bytes_per_token)" 1e-6
  # Six steps read 25 … 30 keys and values of 2 heads in 2 layers, f16.
  check "KV bytes of a decode step" is "$(key kv_bytes_per_token)" $((2 * 2 * 2 * 64 * 2 * 55 / 2))
  for k in peak_fma_operations_per_s peak_dot_operations_per_s peak_share bandwidth_share host_share tokenize_s ttft_s; do
    check "$k is measured" holds "$(key $k) > 0"
  done
  check "10 samples of the bandwidth" is "$(key read_bandwidth_samples.#)" 10
  check "over 64 MiB or more" holds "$(key read_buffer_bytes) >= 67108864"
  check "the share of the bandwidth follows" near "$(key bandwidth_share)" \
    "$(calc "$(key decode_tokens_per_s) * ($(key weight_bytes_per_token) + $(key kv_bytes_per_token)) / $(key read_bandwidth_bytes_per_s)")" 1e-3
  check "the share of the peak follows" near "$(key peak_share)" \
    "$(calc "($(key prefill_fma_operations) / $(key peak_fma_operations_per_s) + $(key prefill_dot_operations) / $(key peak_dot_operations_per_s)) / $(key prefill_s)")" 1e-3
done
m bench -m "$LLAMA" -n 1 -t 1 --prompt 5 --generate 1 --repeat 1 --json
check "f32 weights are f32 operations" is "$status $(key prefill_dot_operations)" "0 0"
check "a model without tokenizer" not json "$T/out" tokenize_s

for n in 1 2; do
  m bench -m "$TEXT" -n $n -t 1 --batch 1,2,5 --prompt 24 --generate 6 --repeat 2 --json
  check "--batch on $n ranks" is "$status $(key batches.#)" "0 3"
  for i in 0 1 2; do
    b=$(echo 1 2 5 | cut -d' ' -f$((i + 1)))
    check "row $i is batch $b" is "$(key batches.$i.batch) $(key batches.$i.decode_samples.#)" "$b 2"
    check "the last waits no shorter than the median" holds "$(key batches.$i.ttft_last_s) >= $(key batches.$i.ttft_s)"
    check "all are $b streams" near "$(key batches.$i.decode_tokens_per_s)" "$(calc "$b * $(key batches.$i.stream_tokens_per_s)")" 1e-6
    check "a step's weights are shared by $b tokens" near "$(key batches.$i.weight_bytes_per_token)" \
      "$(calc "$(key batches.0.weight_bytes_per_token) / $b")" 1e-3
  done
done
# The first sequences decode while the last ones wait for their prompts.
m bench -m "$TEXT" -n 1 --batch 4 --prompt 24 --generate 3 --repeat 1 --chunk 5 --json
check "small chunks" is "$status $(key batches.0.batch)" "0 4"
# What a counted step reads: the prompt, what came in that head start, its own tokens.
check "only steps in which all decode are counted" holds "$(key batches.0.kv_bytes_per_token) < 2 * 2 * 2 * 64 * 2 * (24 + 100)"

m bench -m "$TEXT" -n 2 --shapes 20:1,40:1,1:10,1:20 --repeat 1 --json
check "--shapes" is "$status $(key shapes.#) $(key shapes.1.prompt) $(key shapes.3.generate)" "0 4 40 20"
m bench -m "$TEXT" -n 1 --shapes 20:1,1:20 --repeat 1
check "shapes for people" is "$status $(grep -cE '^ +(20 +1|1 +20) ' "$T/out")" "0 2"
m bench -m "$TEXT" -n 1 --batch 1,2 --prompt 8 --generate 2 --repeat 1
check "batches for people" is "$status $(grep -cE '^ +[12] +[0-9.]+ ' "$T/out")" "0 2"
m bench -m "$TEXT" -n 1 --prompt 8 --generate 2 --repeat 1 --temperature 0.8 --top-p 0.9
check "sampling" ok

for shapes in 5 5: :1 0:1 1:0 1:1, 1:1x; do
  r bench -m "$TEXT" --shapes "$shapes"
  check "--shapes $shapes is refused" is "$status" 2
done
r bench -m "$TEXT" --batch 1,0
check "a batch of none is refused" is "$status" 2
r bench -m "$TEXT" --batch 1 --shapes 1:1
check "--batch or --shapes" is "$status" 2
r bench -m "$TEXT" --shapes 1:1 --prompt 3
check "--shapes or --prompt" is "$status" 2
finish
