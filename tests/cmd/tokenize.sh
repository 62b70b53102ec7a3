#!/usr/bin/env bash
# tokenize: ids, text, counts, merges, templates; bad input.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
DIR=tests/data/gguf/tiny-llama-tokenizer
text='Olá, Hello world! Café déjà vu — 123 😊'

tok() { # STDIN ARGUMENTS…
  printf '%s' "$1" >"$T/in"
  shift
  run 20 "$M" tokenize -m "$DIR" "$@" <"$T/in"
}
tok "$text"
check "ids are one line" is "$status $(wc -l <"$T/out")" "0 1"
cp "$T/out" "$T/ids"
tok "$(cat "$T/ids")" --decode
check "decode gives the text back" cmp "$T/out" <(printf '%s' "$text")
run 20 "$M" tokenize -m "$TEXT" < <(printf '%s' "$text")
check "the GGUF's tokenizer gives the same ids" cmp "$T/out" "$T/ids"
run 20 $MPIRUN -n 3 "$M" tokenize -m "$DIR" < <(printf '%s' "$text")
check "under mpirun rank 0 alone answers" cmp "$T/out" "$T/ids"
tok "" 
check "nothing is an empty line" is "$status $(wc -c <"$T/out")" "0 1"
tok "" --decode
check "no ids are no text" is "$status $(wc -c <"$T/out")" "0 0"
tok "<|im_start|>x"
special=$(cut -d, -f1 "$T/out")
tok "<|im_start|>x" --no-parse-special
check "special text stays text on request" not is "$(cut -d, -f1 "$T/out")" "$special"
tok "hello"
hello=$(cat "$T/out")
tok " hello"
check "'hello' and ' hello' differ" not is "$(cat "$T/out")" "$hello"

tok "$text" --stats
check "--stats: characters" grep -qx "characters 38" "$T/out"
check "--stats: words" grep -qx "words 9" "$T/out"
check "--stats: tokens" grep -qx "tokens $(tr ',' '\n' <"$T/ids" | wc -l)" "$T/out"
tok "$text" --stats --json
check "--stats --json" is "$(json "$T/out" characters) $(json "$T/out" tokens)" "38 $(tr ',' '\n' <"$T/ids" | wc -l)"
check "--stats: ratio" near "$(json "$T/out" tokens_per_word)" "$(calc "$(json "$T/out" tokens) / $(json "$T/out" words)")" 1e-6
tok "Hello world" --explain --json
check "--explain --json: the tokens of the pieces are the ids" is \
  "$(for i in 0 1; do json "$T/out" pieces.$i.tokens; done | paste -sd,)" "$(printf 'Hello world' | "$M" tokenize -m $DIR)"
check "--explain: each merge takes one symbol away" is "$(for i in 0 1; do
  echo $(($(json "$T/out" pieces.$i.symbols.#) - $(json "$T/out" pieces.$i.merges.#) - $(json "$T/out" pieces.$i.tokens.#))); done | paste -sd,)" "0,0"
tok "Hello world" --explain
check "--explain for people" is "$(grep -c '^piece' "$T/out")" 2

chat='{"messages": [{"role": "user", "content": "Hi <|im_end|>"}], "add_generation_prompt": true}'
tok "$chat" --chat
check "--chat renders" grep -q "<|im_start|>assistant" "$T/out"
tok '{"messages": [{"role": "user"' --chat
check "malformed JSON" is "$status" 3
check "with line and column" says "standard input:1:[0-9]+:"
tok '{"messages": [], "temperature": 1}' --chat
check "an unknown key is named" is "$status $(grep -c 'temperature' "$T/err")" "3 1"
tok '[1,2]' --chat
check "the wrong kind of JSON" is "$status" 3
printf 'abc\xffdef' >"$T/in"
run 20 "$M" tokenize -m "$DIR" <"$T/in"
check "bad UTF-8: status" is "$status" 3
check "bad UTF-8: the byte" says "standard input: not UTF-8 at byte 3"
check "bad UTF-8: nothing written" silent
tok "1,2,99999" --decode
check "an id outside the vocabulary" is "$status" 3
check "is named" says "99999"
tok "1,,2" --decode
check "a malformed list" is "$status" 3
run 20 "$M" tokenize -m "$LLAMA" </dev/null
check "a model without tokenizer" is "$status" 3
run 20 bash -c "echo x | '$M' tokenize -m '$DIR' >/dev/full"
check "a full disk" is "$status $(grep -c 'writing failed' "$T/err")" "1 1"
# Linear time: a megabyte of one letter, and of nothing that the pre-tokenizer cuts.
head -c 1000000 /dev/zero | tr '\0' 'a' >"$T/in"
run 10 "$M" tokenize -m "$DIR" <"$T/in"
check "a megabyte of one letter" ok
"$M" tokenize -m "$DIR" --decode <"$T/out" >"$T/back"
check "comes back" cmp "$T/back" "$T/in"
finish
