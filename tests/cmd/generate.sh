#!/usr/bin/env bash
# generate: the same text on any number of ranks, choosing, stopping, outputs, warnings.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

sample=(--temperature 1.3 --seed 80 --max-tokens 24 --ignore-eos)

# ---- the same seed, the same text ------------------------------------------------------------------------------------
m generate -m "$TEXT" -n 1 -p "Hello world" "${sample[@]}" --ids-out "$T/ids1"
check "1 rank" ok
cp "$T/out" "$T/text1"
check "a finish by length is said" says "24 tokens.*not finished"
check "plain completion on a chat model says so" says "chat model.*without its template"
check "it says so once" is "$(grep -c 'without its template' "$T/err")" 1
check "tokens, TTFT and speed at the end" says "9 prompt tokens, 24 output tokens, TTFT [0-9.]+ s, [0-9.]+ tokens/s"
check "passes and bytes at the end" says "24 passes through the layers on 1 rank; read: weights [0-9.]+ [kMG]B, KV cache"
check "ids are one line of 24" is "$(tr ',' '\n' <"$T/ids1" | wc -l) $(wc -l <"$T/ids1")" "24 1"
for n in 2 3; do
  m generate -m "$TEXT" -n $n -p "Hello world" "${sample[@]}" --ids-out "$T/ids$n"
  check "$n ranks end well" ok
  check "$n ranks: the same text" cmp "$T/out" "$T/text1"
  check "$n ranks: the same ids" cmp "$T/ids$n" "$T/ids1"
  check "$n ranks: bytes per rank are told" says "on $n ranks; .*\(a rank at most "
done
run 60 $MPIRUN -n 2 "$M" generate -m "$TEXT" -p "Hello world" "${sample[@]}"
check "mpirun -n 2 mutirao ends well" ok
check "mpirun -n 2 mutirao: the same text" cmp "$T/out" "$T/text1"
r generate -m "$TEXT" -p "Hello world" "${sample[@]}" --seed 81
check "another seed, another text" not cmp -s "$T/out" "$T/text1"
r generate -m "$TEXT" -p "Hello world" "${sample[@]}" -t 3 --chunk 4
check "threads and chunks do not matter" cmp "$T/out" "$T/text1"
r generate -m "$TEXT" -p "Hello world" "${sample[@]}" --no-kv-cache
check "without the cache: the same text" cmp "$T/out" "$T/text1"
check "without the cache: a pass a token" says "24 passes"
printf 'Hello world' >"$T/prompt"
r generate -m "$TEXT" --prompt-file "$T/prompt" "${sample[@]}"
check "--prompt-file" cmp "$T/out" "$T/text1"
r generate -m "$TEXT" --prompt-file - "${sample[@]}" <"$T/prompt"
check "--prompt-file -" cmp "$T/out" "$T/text1"
m generate -m "$TEXT" -n 2 --prompt-file - "${sample[@]}" <"$T/prompt"
check "--prompt-file - on 2 ranks" cmp "$T/out" "$T/text1"
r generate -m "$TEXT" -p "Hello world" "${sample[@]}" --echo
check "--echo prints the prompt first" cmp "$T/out" <(cat "$T/prompt" "$T/text1")

# ---- greedy ----------------------------------------------------------------------------------------------------------
r generate -m "$LLAMA" --ids 1,2,3 --max-tokens 16 --temperature 0 --ids-out "$T/greedy"
check "greedy" ok
r generate -m "$LLAMA" --ids 1,2,3 --max-tokens 16 --temperature 0.0001 --seed 5 --ids-out "$T/cold"
check "T near 0 is greedy" cmp "$T/greedy" "$T/cold"
r generate -m "$LLAMA" --ids 1,2,3 --max-tokens 16 --top-k 1 --seed 9 --ids-out "$T/k1"
check "top-k 1 is greedy" cmp "$T/greedy" "$T/k1"
# Against the greedy ids of the reference.
want=$(json $LLAMA/greedy.json generated_ids | paste -sd,)
r generate -m "$LLAMA" --ids "$(json $LLAMA/greedy.json prompt_ids | paste -sd,)" --max-tokens 32 --temperature 0 \
  --kv-type f32 --ignore-eos --ids-out "$T/ref"
check "greedy ids of the reference" is "$(cat "$T/ref")" "$want"

# ---- bias ------------------------------------------------------------------------------------------------------------
r generate -m "$LLAMA" --ids 1,2,3 --max-tokens 20 --temperature 1 --seed 3 --logit-bias 42=100 --ids-out "$T/b"
check "+100 forces on every step" is "$(tr ',' '\n' <"$T/b" | sort -u)" 42
top=$(cut -d, -f1 "$T/greedy")
r generate -m "$LLAMA" --ids 1,2,3 --max-tokens 20 --temperature 0 --logit-bias "$top=-100" --ids-out "$T/b"
check "-100 bans on every step" not grep -qE "(^|,)$top(,|\$)" "$T/b"
check "a banned id leaves others" is "$(tr ',' '\n' <"$T/b" | wc -l)" 20
r generate -m "$LLAMA" --ids 1,2,3 --max-tokens 4 --logit-bias 320=1
check "a bias outside the vocabulary is refused" is "$status" 1
check "and named" says "320"

# ---- a loop, and what breaks it --------------------------------------------------------------------------------------
loop=(generate -m "$TEXT" --ids 5,6,7 --max-tokens 96 --temperature 0 --ignore-eos --logit-bias 9=14)
r "${loop[@]}" --ids-out "$T/loop"
check "a greedy loop" is "$(cut -d, -f33- "$T/loop" | tr ',' '\n' | sort -u | wc -l)" 1
check "verbatim repetition is warned of" says "repeats itself: its last 1 tokens stand there [0-9]+ times"
r "${loop[@]}" --repetition-penalty 5 --ids-out "$T/free"
check "the repetition penalty breaks it" holds "$(tr ',' '\n' <"$T/free" | sort -u | wc -l) > 20"
check "nothing to warn of then" not says "repeats itself"
r "${loop[@]}" --frequency-penalty 2 --ids-out "$T/free"
check "the frequency penalty breaks it" holds "$(tr ',' '\n' <"$T/free" | sort -u | wc -l) > 10"

# ---- choices and JSON ------------------------------------------------------------------------------------------------
r generate -m "$TEXT" -p "Hello world" "${sample[@]}" --choices 3 --json
cp "$T/out" "$T/c1"
check "--json is one object of 3 choices" is "$(json "$T/c1" "choices.#")" 3
check "choice 0 is what one choice gives" is "$(json "$T/c1" choices.0.ids | paste -sd,)" "$(cat "$T/ids1")"
check "choices differ" is "$(for c in 0 1 2; do json "$T/c1" choices.$c.ids | paste -sd,; done | sort -u | wc -l)" 3
check "finish reason" is "$(json "$T/c1" choices.1.finish_reason)" length
check "a log-probability a token" is "$(json "$T/c1" choices.2.logprobs.#)" "$(json "$T/c1" choices.2.ids.#)"

# A template may name every special token of tokenizer_config.json, in generate as in tokenize.
printf '{{ pad_token }}{{ messages[0].content }}' >"$T/pad.jinja"
r tokenize --chat -m $MIRIM --chat-template "$T/pad.jinja" <<<'{"messages": [{"role": "user", "content": "hi"}]}'
check "tokenize --chat renders the padding token" is "$(cat "$T/out")" "<|endoftext|>hi"
cp "$T/out" "$T/rendered"
r tokenize -m $MIRIM <"$T/rendered"
n=$(tr ',' '\n' <"$T/out" | wc -l)
r generate -m $MIRIM --chat --chat-template "$T/pad.jinja" -p hi --max-tokens 1 --json
check "generate --chat sees the same tokens" is "$(json "$T/out" choices.0.prompt_tokens)" "$n"

# config.json leaves out what is the family's default: SmolLM3 and Gemma 3 are tied without saying so.
for c in smollm3-nope-bf16 gemma3-swa8-bf16; do
  rm -rf "$T/untold"
  cp -r $MODELS/$c "$T/untold"
  sed -i '/"tie_word_embeddings"/d' "$T/untold/config.json"
  r logits -m $MODELS/$c --ids 1,2,3 --out "$T/told.f32"
  r logits -m "$T/untold" --ids 1,2,3 --out "$T/untold.f32"
  check "$c without tie_word_embeddings" cmp "$T/told.f32" "$T/untold.f32"
done

# Where rope depends on the planned length, the plan is the request's: a smaller cache here changes nothing but the end.
for c in "" "--ctx 64" "-n 2 --ctx 128"; do
  m generate -m $MODELS/llama-dynamic-bf16 --ids 5,6,7 --temperature 0 --ignore-eos --json $c
  cp "$T/out" "$T/plan"
  check "cache ${c:-as the model}: first log-probability" is "$(json "$T/plan" choices.0.logprobs | head -n 50)" \
    "${plan:=$(json "$T/plan" choices.0.logprobs | head -n 50)}"
done
check "there are some" is "$(wc -l <<<"$plan")" 50
m generate -m "$TEXT" -n 2 -p "Hello world" "${sample[@]}" --choices 3 --json
check "choices are repeatable, on 2 ranks too" \
  is "$(for c in 0 1 2; do json "$T/out" choices.$c.ids; done)" "$(for c in 0 1 2; do json "$T/c1" choices.$c.ids; done)"

# ---- stop strings ----------------------------------------------------------------------------------------------------
# A piece from the middle of the text, longer than a token.
text=$(cat "$T/text1")
piece=${text:9:6}
r generate -m "$TEXT" -p "Hello world" "${sample[@]}" --stop "$piece" --json
check "--stop ends before the string, across tokens" is "$(json "$T/out" choices.0.text)" "${text%%"$piece"*}"
check "finish reason stop" is "$(json "$T/out" choices.0.finish_reason)" stop
check "no word of an unfinished text" not says "not finished"
r generate -m "$TEXT" -p "Hello world" "${sample[@]}" --stop "$piece" --stop "${text:4:3}"
check "the stop that comes first wins" is "$(cat "$T/out")" "${text%%"${text:4:3}"*}"
r generate -m "$TEXT" -p "Hello world" "${sample[@]}" --stop "${piece}NEVER"
check "what only begins a stop is shown in the end" cmp "$T/out" "$T/text1"
r generate -m "$LLAMA" --ids 1,2 --max-tokens 4 --stop x
check "--stop without a tokenizer is refused, not ignored" is "$status" 3

# ---- the end token ---------------------------------------------------------------------------------------------------
eos=2 # <|im_end|> of this vocabulary
r generate -m "$TEXT" -p "Hello world" --max-tokens 9 --temperature 0 --logit-bias "$eos=100" --json
check "the model's end token ends the text" is "$(json "$T/out" choices.0.finish_reason) $(json "$T/out" choices.0.ids.#)" "eos 0"
r generate -m "$TEXT" -p "Hello world" --max-tokens 9 --temperature 0 --logit-bias "$eos=100" --ignore-eos --json
check "--ignore-eos goes on" is "$(json "$T/out" choices.0.finish_reason) $(json "$T/out" choices.0.ids.#)" "length 9"

# ---- refused up front ------------------------------------------------------------------------------------------------
for n in 1 3; do
  m generate -m "$LLAMA" -n $n --ids 1,2,3 --max-tokens 510
  check "$n ranks: context overflow" is "$status" 1
  check "$n ranks: both counts are told" says "3 prompt tokens and 510 to generate are 513; the context has 512"
  check "$n ranks: nothing was generated" silent
done
r generate -m "$LLAMA" --ids 1,2,3 --max-tokens 2000000000
check "an absurd count is an overflow, not a lack of memory" says "the context has 512"
r generate -m "$LLAMA" --ids 1,2,3 --max-tokens 509 --temperature 0 --ids-out "$T/full"
check "exactly the context fits" is "$status $(tr ',' '\n' <"$T/full" | wc -l)" "0 509"

# ---- effective values ------------------------------------------------------------------------------------------------
r generate -m "$TEXT" -p x --max-tokens 1 --temperature 0.7 --top-k 40 --top-p 0.9 --min-p 0.05 --typical-p 0.95 \
  --repetition-penalty 1.1 --presence-penalty 0.5 --frequency-penalty 0.25 --seed 11 -v
check "-v shows the effective values" says "temperature 0.7, top-k 40, top-p 0.9, min-p 0.05, typical-p 0.95, \
repetition 1.1, presence 0.5, frequency 0.25, seed 11"
cp -r "$LLAMA" "$T/defaults"
echo '{"do_sample": true, "temperature": 0.6, "top_k": 7, "top_p": 0.8, "repetition_penalty": 1.2, "eos_token_id": [300, 301]}' \
  >"$T/defaults/generation_config.json"
r generate -m "$T/defaults" --ids 1,2 --max-tokens 1 -v
check "defaults come from generation_config.json" says "temperature 0.6, top-k 7, top-p 0.8, .*repetition 1.2"
r generate -m "$T/defaults" --ids 1,2 --max-tokens 5 --logit-bias 301=100 --json
check "and its end tokens" is "$(json "$T/out" choices.0.finish_reason)" eos
r generate -m "$T/defaults" --ids 1,2 --max-tokens 1 --temperature 0 -v
check "the command line wins" says "temperature 0, top-k 7"
r generate -m "$LLAMA" --ids 1,2 --max-tokens 1 -q
check "-q says nothing" is "$(cat "$T/err")" ""
finish
