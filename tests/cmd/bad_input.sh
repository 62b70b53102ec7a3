#!/usr/bin/env bash
# Bad models, bad files, bad requests: one clear line that names file and place, the right exit status, on 1 and on 3
# ranks, within seconds; every rank ends by itself and none with 0.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Each of 3 ranks writes its exit status down; mpirun does not end the others when one fails.
cat >"$T/rank" <<'S'
#!/bin/sh
"$@"
s=$?
echo $s >"$STATUS_DIR/$OMPI_COMM_WORLD_RANK"
exit $s
S
chmod +x "$T/rank"
export STATUS_DIR=$T/status

# bad NAME STATUS PATTERN COMMAND ARGUMENTS…: refused on 1 rank and on 3.
bad() {
  local name=$1 want=$2 pattern=$3
  shift 3
  run 20 "$M" "$1" -n 1 "${@:2}"
  check "$name: exit status" is $status "$want"
  check "$name: one line" is "$(grep -c . "$T/err")" 1
  check "$name: it says where" says "^mutirao: error: .*$pattern"
  check "$name: no output" silent
  rm -rf "$STATUS_DIR"
  mkdir "$STATUS_DIR"
  run 20 $MPIRUN -n 3 --mca orte_abort_on_non_zero_status 0 "$T/rank" "$M" "$@"
  check "$name, 3 ranks: every rank's" is "$(cat "$STATUS_DIR"/*)" "$want"$'\n'"$want"$'\n'"$want"
  check "$name, 3 ranks: one line" is "$(grep -c '^mutirao:' "$T/err")" 1
  check "$name, 3 ranks: it says where" says "^mutirao: .*error: .*$pattern"
  check "$name, 3 ranks: no output" silent
}
# A copy of a model to break.
copy() {
  rm -rf "$T/m"
  cp -r "$1" "$T/m"
}
config() { sed -i "$1" "$T/m/config.json"; }
ids=(--ids 1,2,3)

# ---- safetensors ------------------------------------------------------------------------------------------------------
copy "$LLAMA" && truncate -s 1000000 "$T/m/model.safetensors"
bad "truncated" 3 "m/model.safetensors: .*249928 bytes short" logits -m "$T/m" "${ids[@]}"
copy "$LLAMA" && truncate -s 5 "$T/m/model.safetensors"
bad "shorter than a header" 3 "m/model.safetensors:" logits -m "$T/m" "${ids[@]}"
copy "$LLAMA" && printf '\xff\xff\xff\xff\xff\xff\xff\x7f' | dd of="$T/m/model.safetensors" conv=notrunc status=none
bad "absurd header" 3 "m/model.safetensors:" logits -m "$T/m" "${ids[@]}"
copy "$LLAMA" && printf '{]' | dd of="$T/m/model.safetensors" bs=1 seek=8 conv=notrunc status=none
bad "malformed header" 3 "m/model.safetensors:" logits -m "$T/m" "${ids[@]}"
copy "$LLAMA" && sed -i '0,/"F32"/s//"Q77"/' "$T/m/model.safetensors"
bad "unknown dtype" 3 "m/model.safetensors: .*Q77" logits -m "$T/m" "${ids[@]}"
copy $MODELS/llama-sharded-f16 && rm "$T/m/model-00002-of-00002.safetensors"
bad "missing shard" 3 "model-00002-of-00002.safetensors" logits -m "$T/m" "${ids[@]}"
copy $MODELS/llama-sharded-f16 && echo '{"weight_map": 7}' >"$T/m/model.safetensors.index.json"
bad "malformed index" 3 "model.safetensors.index.json: " logits -m "$T/m" "${ids[@]}"

# ---- a configuration that does not fit ----------------------------------------------------------------------------------
copy "$LLAMA" && config 's/"hidden_size": 128/"hidden_size": 136/'
bad "wrong shapes" 3 "model\.[a-z_.0-9]*weight.*(128|136)" logits -m "$T/m" "${ids[@]}"
copy "$LLAMA" && config 's/"num_hidden_layers": 2/"num_hidden_layers": 3/'
bad "missing tensors" 3 "layers\.2\." logits -m "$T/m" "${ids[@]}"
copy "$LLAMA" && config 's/"LlamaForCausalLM"/"ParrotForCausalLM"/; s/"model_type": "llama"/"model_type": "parrot"/'
bad "unknown architecture" 3 "[Pp]arrot" logits -m "$T/m" "${ids[@]}"
copy $MODELS/llama31-rope-bf16 && config 's/"llama3"/"spiral"/'
bad "unknown rope" 3 "spiral" logits -m "$T/m" "${ids[@]}"
copy "$LLAMA" && echo '{"architectures": [' >"$T/m/config.json"
bad "malformed config.json" 3 "m: config.json:2:" logits -m "$T/m" "${ids[@]}"
copy "$LLAMA" && rm "$T/m/config.json"
bad "no config.json" 3 "m/config.json: No such file" logits -m "$T/m" "${ids[@]}"
copy $MODELS/llama-odd-tied-bf16 && config 's/"tie_word_embeddings": true/"tie_word_embeddings": false/'
bad "neither head nor tie" 3 "lm_head" logits -m "$T/m" "${ids[@]}"

# ---- GGUF ---------------------------------------------------------------------------------------------------------------
gguf() { cp tests/data/gguf/tiny-llama-Q4_0.gguf "$T/x.gguf"; }
at() { dd of="$T/x.gguf" bs=1 seek="$1" conv=notrunc status=none; }
gguf && truncate -s 500000 "$T/x.gguf"
bad "truncated GGUF" 3 "x.gguf: " logits -m "$T/x.gguf" "${ids[@]}"
gguf && printf 'GGML' | at 0
bad "bad magic" 3 "x.gguf: " logits -m "$T/x.gguf" "${ids[@]}"
gguf && printf '\x09' | at 4
bad "GGUF of another version" 3 "x.gguf: .*9" logits -m "$T/x.gguf" "${ids[@]}"
gguf && printf '\xff\xff\xff\xff\xff\xff\xff\x7f' | at 8
bad "absurd count of tensors" 3 "x.gguf: " logits -m "$T/x.gguf" "${ids[@]}"
gguf && printf '\xff\xff\xff\xff\xff\xff\xff\x7f' | at 24
bad "absurd length of a key" 3 "x.gguf: " logits -m "$T/x.gguf" "${ids[@]}"

# ---- no model, no file ----------------------------------------------------------------------------------------------------
bad "no such model" 3 "absent: No such file" generate -m "$T/absent" "${ids[@]}" --max-tokens 2
mkdir -p "$T/empty"
bad "an empty directory" 3 "empty" generate -m "$T/empty" "${ids[@]}" --max-tokens 2
echo "not a model" >"$T/text"
bad "a text file" 3 "text" generate -m "$T/text" "${ids[@]}" --max-tokens 2
if [ "$(id -u)" -ne 0 ]; then
  copy "$LLAMA" && chmod 000 "$T/m/model.safetensors"
  bad "unreadable" 3 "m/model.safetensors: Permission denied" logits -m "$T/m" "${ids[@]}"
else
  echo "skipped unreadable file: root reads everything"
fi
bad "no prompt file" 3 "absent.txt: No such file" generate -m "$TEXT" --prompt-file "$T/absent.txt" --max-tokens 2
bad "no list of ids" 3 "absent.ids: No such file" logits -m "$TEXT" --ids "@$T/absent.ids"
printf 'ab\xff' >"$T/latin1"
bad "a prompt that is not UTF-8" 3 "latin1: not UTF-8 at byte 2" generate -m "$TEXT" --prompt-file "$T/latin1" --max-tokens 2
bad "a text to score that is not UTF-8" 3 "latin1: not UTF-8 at byte 2" score -m "$TEXT" --file "$T/latin1"

# ---- tokenizer --------------------------------------------------------------------------------------------------------------
bad "no tokenizer for a text" 3 "tokenizer.json: No such file" generate -m "$LLAMA" -p hi --max-tokens 2
copy "$LLAMA" && cp tests/data/gguf/tiny-llama-tokenizer/tokenizer*.json "$T/m"
bad "a tokenizer that does not fit" 3 "tokenizer does not fit the model: it has 512 ids, the model 320" \
  score -m "$T/m" -p "Hello world"
copy "$LLAMA" && echo '{"model": {"type": "BPE"' >"$T/m/tokenizer.json"
bad "malformed tokenizer.json" 3 "m/tokenizer.json:2:" score -m "$T/m" -p hi
copy "$LLAMA" && echo '{"model": {"type": "Unigram", "vocab": []}}' >"$T/m/tokenizer.json"
bad "unknown kind of tokenizer" 3 "Unigram" score -m "$T/m" -p hi
copy "$LLAMA" && echo '{"temperature": "hot"' >"$T/m/generation_config.json"
bad "malformed generation_config.json" 3 "generation_config.json:" generate -m "$T/m" "${ids[@]}" --max-tokens 2 -q
printf '{%% for m in messages %%}{%% endwhile %%}' >"$T/t.jinja"
bad "a template that does not compile" 3 "t.jinja:1:" \
  generate -m "$TEXT" -p hi --chat --chat-template "$T/t.jinja" --max-tokens 2
printf '{{ raise_exception("only one turn, please") }}' >"$T/t.jinja"
bad "a template that refuses" 3 "only one turn, please" \
  generate -m "$TEXT" -p hi --chat --chat-template "$T/t.jinja" --max-tokens 2

# ---- requests -----------------------------------------------------------------------------------------------------------------
bad "an id outside the vocabulary" 2 "token id 320 is outside the vocabulary of 320" logits -m "$LLAMA" --ids 1,320
bad "more ids than the context" 1 "513 .*context has 512" logits -m "$LLAMA" --ids "$(seq -s, 1 300),$(seq -s, 1 213)"
bad "an empty prompt" 2 "prompt is empty" generate -m "$TEXT" -p "" --max-tokens 2 -q
bad "no ids" 2 "ids: the list is empty" logits -m "$LLAMA" --ids ""
bad "a word for an id" 2 "'x,2'" logits -m "$LLAMA" --ids 1,x,2
bad "an unknown option" 2 "max-token.*--max-tokens" generate -m "$LLAMA" "${ids[@]}" --max-token 2
bad "a value out of range" 2 "temperature" generate -m "$LLAMA" "${ids[@]}" --temperature -1
bad "a directory that is not there" 1 "absent/l: " logits -m "$LLAMA" "${ids[@]}" --out "$T/absent/l"
for c in "generate -m $TEXT -n 1 -p a --max-tokens 40 --ignore-eos" "generate -m $TEXT -n 1 -p a --max-tokens 4 --choices 2" \
  "score -m $LLAMA -n 1 --ids 1,2,3" "inspect -m $LLAMA" "bench -m $LLAMA -n 1 --prompt 2 --generate 2 --repeat 1" --version; do
  run 20 bash -c "'$M' $c >/dev/full"
  check "${c%% *}: nothing can be written" is "$status" 1
  check "${c%% *}: and it says so" says "writing failed|cannot write"
done
bad "a full disk" 1 "/dev/full: writing failed" logits -m "$LLAMA" --ids "$(seq -s, 1 60)" --out /dev/full

# ---- numbers that are none ----------------------------------------------------------------------------------------------------
copy "$LLAMA" && "$TOOL" poke "$T/m/model.safetensors" model.layers.1.mlp.down_proj.weight 700 0000c07f
bad "a NaN in layer 1" 1 "layer 1, FFN output: rank 0 on " logits -m "$T/m" "${ids[@]}"
copy "$LLAMA" && "$TOOL" poke "$T/m/model.safetensors" model.layers.0.self_attn.o_proj.weight 5 0000807f
bad "an infinity in layer 0" 1 "layer 0, attention output: rank 0 on " logits -m "$T/m" "${ids[@]}"
copy "$LLAMA" && "$TOOL" poke "$T/m/model.safetensors" model.layers.1.mlp.down_proj.weight 700 ffff7f7e
bad "a sum that does not fit" 1 "layer 1, FFN output: rank 0 on " generate -m "$T/m" "${ids[@]}" --max-tokens 8 -q
copy "$LLAMA" && "$TOOL" poke "$T/m/model.safetensors" model.norm.weight 3 0000c07f
bad "a NaN in the logits" 1 "(rank|position|logit)" score -m "$T/m" "${ids[@]}" -q
bad "a NaN in the logits that are written" 1 "logits at position 0 are not numbers" logits -m "$T/m" "${ids[@]}"
# Column 150 of the FFN is rank 1's.
copy "$LLAMA" && "$TOOL" poke "$T/m/model.safetensors" model.layers.0.mlp.down_proj.weight $((3 * 192 + 150)) 0000c07f
m logits -m "$T/m" -n 3 "${ids[@]}"
check "the rank with the NaN is named" says "layer 0, FFN output: rank 1 on "
check "and mpirun ends with 1" is $status 1
check "mpirun's own comments do not bury the line" is "$(wc -l <"$T/err")" 1
copy "$LLAMA" && truncate -s 1000000 "$T/m/model.safetensors"
m logits -m "$T/m" -n 3 "${ids[@]}"
check "mpirun ends with 3" is $status 3
check "and with one line" is "$(wc -l <"$T/err")" 1
m logits -m "$LLAMA" -n 3 --ids 1,400
check "mpirun ends with 2" is $status 2
finish
