#!/usr/bin/env bash
# trace: the six stages of a token; bench: its numbers fit together.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# ---- trace --------------------------------------------------------------------------------------------------------------
sample=(--temperature 0.8 --top-k 50 --top-p 0.9 --min-p 0.01 --repetition-penalty 1.2 --logit-bias 7=1 --seed 6)
r generate -m "$TEXT" -p "Hello world" "${sample[@]}" --max-tokens 3 --ignore-eos --json
cp "$T/out" "$T/g"
for n in 1 2; do
  m trace -m "$TEXT" -n $n -p "Hello world" "${sample[@]}" --tokens 3 --top 5 --json
  check "$n ranks: one JSON object" is "$status $(json "$T/out" steps.#)" "0 3"
  cp "$T/out" "$T/t$n"
  check "$n ranks: the ids of generate" \
    is "$(for i in 0 1 2; do json "$T/t$n" steps.$i.id; done)" "$(json "$T/g" choices.0.ids)"
  check "$n ranks: its log-probabilities" \
    is "$(for i in 0 1 2; do json "$T/t$n" steps.$i.logprob; done)" "$(json "$T/g" choices.0.logprobs)"
  check "$n ranks: a record a rank" is "$(json "$T/t$n" steps.0.ranks.#)" $n
  for key in embedding_ns attention_ns ffn_ns logits_ns; do
    check "$n ranks: $key is measured" holds "$(json "$T/t$n" steps.0.ranks.$((n - 1)).$key) > 0"
  done
  for key in ids_ns choice_ns text_ns total_ns; do
    check "$n ranks: $key is there" holds "$(json "$T/t$n" steps.0.$key) > 0"
  done
done
check "weights are cut over the ranks" is \
  $(($(json "$T/t2" steps.1.ranks.0.weight_bytes) + $(json "$T/t2" steps.1.ranks.1.weight_bytes))) \
  "$(json "$T/t1" steps.1.ranks.0.weight_bytes)"
# 2 layers, 2 KV heads of 64, f16: the last token of a sequence of 10 reads all 10 keys and values.
check "the cache that a token reads" is "$(json "$T/t1" steps.1.ranks.0.kv_bytes)" $((2 * 2 * 2 * 64 * 2 * 10))
check "one rank sends nothing" is "$(json "$T/t1" steps.1.ranks.0.network_bytes)" 0
check "two ranks do" holds "$(json "$T/t2" steps.1.ranks.1.network_bytes) > 0"
check "candidates after each processor, in order" is \
  "$(for i in 0 1 2 3 4 5 6; do json "$T/t1" steps.0.stages.$i.after; done | paste -sd' ')" \
  "logits logit_bias repetition_penalty temperature top_k top_p min_p"
check "all are possible before" is "$(json "$T/t1" steps.0.stages.0.kept)" 512
check "top-k keeps 50" is "$(json "$T/t1" steps.0.stages.4.kept)" 50
check "top-p keeps the nucleus of what top-k left" is \
  "$(json "$T/t1" steps.0.stages.5.kept)" "$(json "$T/t1" steps.0.stages.4.nucleus_tokens)"
check "5 candidates each" is "$(json "$T/t1" steps.0.stages.0.top.#)" 5
check "entropy shrinks when candidates go" holds \
  "$(json "$T/t1" steps.0.stages.5.entropy_nats) <= $(json "$T/t1" steps.0.stages.4.entropy_nats)"
check "probabilities fall" holds \
  "$(json "$T/t1" steps.0.stages.0.top.0.probability) >= $(json "$T/t1" steps.0.stages.0.top.1.probability)"

r trace -m "$TEXT" -p "Hello world" --temperatures 0.1,1,2 --tokens 2 --json
check "--temperatures" ok
p() { json "$T/out" "steps.0.stages.$1.top.0.probability"; }
e() { json "$T/out" "steps.0.stages.$1.entropy_nats"; }
check "stages of three temperatures" is "$(for i in 0 1 2 3 4; do
  echo "$(json "$T/out" steps.0.stages.$i.temperature):$(json "$T/out" steps.0.stages.$i.after)"; done | paste -sd' ')" \
  "0.10000000000000001:logits 0.10000000000000001:temperature 1:logits 2:logits 2:temperature"
check "colder is surer" holds "$(p 1) > $(p 2) && $(p 2) > $(p 4)"
check "and of less entropy" holds "$(e 1) < $(e 2) && $(e 2) < $(e 4)"

m trace -m "$TEXT" -n 3 -p "Hello world" --attention --tokens 2 --json
check "--attention" is "$status $(json "$T/out" steps.1.attention.#) $(json "$T/out" steps.1.attention.1.#)" "0 2 4"
json "$T/out" steps.1.attention.1.3 >"$T/w"
check "a weight a key" is "$(wc -l <"$T/w")" 10
check "the weights of a head sum to 1" near "$(awk '{ s += $1 } END { print s }' "$T/w")" 1 1e-3
json "$T/out" steps.1.attention >"$T/a3"
r trace -m "$TEXT" -p "Hello world" --attention --tokens 2 --json
check "attention is the same on 3 ranks" cmp <(json "$T/out" steps.1.attention) "$T/a3"
# A key that has left the window of 8 is read no more, whatever the chunks: each head's weights add up to 1.
for chunk in 4 32; do
  r trace -m $MODELS/mistral-swa8-bf16 --ids $(seq -s, 5 24) --attention --tokens 2 --chunk $chunk --json
  for step in 0 1; do
    sum=$(json "$T/out" steps.$step.attention.1.2 | awk '{ s += $1 } END { printf "%.3f", s }')
    check "attention within the window, chunk $chunk, step $step" is "$sum" 1.000
  done
done

m trace -m "$TEXT" -n 2 -p "Hello world" --temperature 0.7 --top-p 0.9
check "for people" ok
for stage in "1 ids" "2 embedding" "3 layers" "4 logits" "5 choice" "6 text"; do
  check "stage $stage" grep -q "$stage" "$T/out"
done
check "each rank has a line" is "$(grep -c '3 layers' "$T/out")" 2
r trace -m "$LLAMA" --ids 1,2,3 --tokens 2
check "a model without tokenizer" is "$status $(grep -c '^step' "$T/out")" "0 2"
r trace -m "$TEXT" --ids 5 --logit-bias 2=1000 --tokens 5
check "the end token ends the trace" grep -q "the model ends its text here" "$T/out"

# ---- bench --------------------------------------------------------------------------------------------------------------
for n in 1 3; do
  m bench -m "$TEXT" -n $n -t 1 --prompt 24 --generate 6 --repeat 3 --json
  check "bench on $n ranks" ok
  for key in prefill_tokens_per_s decode_tokens_per_s weight_bytes_per_token read_bandwidth_bytes_per_s; do
    check "$n ranks: $key" holds "$(json "$T/out" $key) > 0"
  done
  share=$(json "$T/out" collective_share)
  check "$n ranks: the share of collectives is one" holds "$share >= 0 && $share <= 1"
  check "$n ranks: it lies between those of the phases" \
    holds "($share - $(json "$T/out" prefill_collective_share)) * ($share - $(json "$T/out" decode_collective_share)) <= 1e-9"
  check "$n ranks: median" is "$(json "$T/out" decode_tokens_per_s)" "$(json "$T/out" decode_samples | sort -g | sed -n 2p)"
  check "$n ranks: samples" is "$(json "$T/out" prefill_samples.#) $(json "$T/out" decode_samples.#)" "3 3"
  check "$n ranks: ranks and threads" is "$(json "$T/out" ranks) $(json "$T/out" threads)" "$n 1"
  json "$T/out" weight_bytes_per_token >"$T/w$n"
done
# What every token reads is what inspect says, however it is cut.
run 20 "$M" inspect -m "$TEXT" --json
check "weight bytes are those of inspect" near "$(cat "$T/w1")" "$(json "$T/out" ranks.0.weight_bytes)" 0.02
run 20 "$M" inspect -m "$TEXT" -n 3 --json
check "on 3 ranks too" near "$(cat "$T/w3")" "$(for i in 0 1 2; do json "$T/out" ranks.$i.weight_bytes; done | awk '{ s += $1 } END { print s }')" 0.02
m bench -m "$TEXT" -n 2 --prompt 16 --generate 4 --repeat 1
check "bench for people" grep -qE "decode +[0-9.]+ tokens/s" "$T/out"
check "bench says what is multiplied" grep -q "activations int16$" "$T/out"
m bench -m "$TEXT" -n 1 --prompt 8 --generate 4 --repeat 1 --activations int8 --json
check "int8 too" is "$(json "$T/out" activations)" int8
run 20 "$M" inspect -m "$TEXT" --activations int8 --json
check "so does inspect" is "$(json "$T/out" activations)" int8
run 20 "$M" inspect -m "$LLAMA" --activations int8
check "f32 weights have f32 activations" grep -qE "^activations +f32$" "$T/out"
m bench -m "$TEXT" -n 2 --collectives --json
check "--collectives" is "$status $(json "$T/out" collectives.#) $(json "$T/out" ranks)" "0 12 2"
check "by size" is "$(json "$T/out" collectives.6.values) $(json "$T/out" collectives.10.rows)" "16384 128"
for way in one-phase two-phase "MPI int64" "MPI f32" "floor int64" "floor f32"; do
  check "$way takes time" holds "$(json "$T/out" "collectives.0.ways.$way") > 0"
done
for way in "mpi_int64_microseconds MPI int64" "mpi_f32_microseconds MPI f32" "floor_microseconds floor int64"; do
  check "${way%% *} is the time of ${way#* }, as bench/report.py reads it" is "$(json "$T/out" "collectives.4.${way%% *}")" \
    "$(json "$T/out" "collectives.4.ways.${way#* }")"
done
check "the chosen one is one of them" is "$(json "$T/out" collectives.7.microseconds)" \
  "$(json "$T/out" "collectives.7.ways.$(json "$T/out" collectives.7.chosen)")"
MUTIRAO_FAKE_NODES=2 m bench -m "$TEXT" -n 3 --collectives --reduce-inside two-phase --reduce-between scatter --json
check "two nodes, a forced algorithm" is "$status $(json "$T/out" groups) $(json "$T/out" collectives.0.chosen)" \
  "0 2 two-phase+scatter"
r bench -m "$TEXT" --collectives
check "--collectives on one rank, for people" is "$status $(grep -c '^ *[0-9]' "$T/out")" "0 12"
m bench -m "$LLAMA" -n 1 --prompt 600 --generate 4 --repeat 1
check "more than the context is refused" is "$status" 1
check "with both counts" says "600 prompt tokens and 5 to generate are 605; the context has 512"
finish
