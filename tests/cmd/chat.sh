#!/usr/bin/env bash
# chat: a conversation through standard input; the window; Ctrl-C.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# A template whose ids are easy to count, over the byte-level tokenizer of the tiny model.
cat >"$T/t.jinja" <<'J'
{%- for m in messages %}[{{ m.role[0] }}]{{ m.content }}{% endfor %}[a]
J
talk=(chat -m "$TEXT" --chat-template "$T/t.jinja" --temperature 0 --max-tokens 8 --ignore-eos)
say() { # LINES on standard input
  printf '%s\n' "$@" >"$T/in"
}
windows() { grep -oE '^\[[0-9]+ of [0-9]+ tokens' "$T/err" | cut -c2- | cut -d' ' -f1; }

say "hello"
r "${talk[@]}" <"$T/in"
check "one turn" ok
check "an answer" [ "$(wc -c <"$T/out")" -gt 1 ]
check "a cut answer is told" says "^\[the answer was cut after 8 tokens\]"
check "tokens of the window are told" says "^\[[0-9]+ of 512 tokens of the window used\]"
cp "$T/out" "$T/first"
first=$(windows)
m "${talk[@]}" -n 2 <"$T/in"
check "2 ranks: the same answer" cmp "$T/out" "$T/first"
check "2 ranks: end well" ok
run 60 $MPIRUN -n 3 "$M" "${talk[@]}" <"$T/in"
check "mpirun -n 3: the same answer" cmp "$T/out" "$T/first"

# The history: a second turn holds the first; /reset and /system forget it.
say "hello" "more"
r "${talk[@]}" <"$T/in"
second=$(windows | tail -n 1)
check "the second turn holds the first" holds "$second > $first + 8"
check "the first answer is unchanged" is "$(head -c "$(wc -c <"$T/first")" "$T/out" | cmp - "$T/first" && echo same)" same
say "hello" "/reset" "hello"
r "${talk[@]}" <"$T/in"
check "/reset says so" says "^\[forgotten\]"
check "after /reset the first turn again" cmp "$T/out" <(cat "$T/first" "$T/first")
say "/system be brief" "hello"
r "${talk[@]}" <"$T/in"
check "/system says so" says "new conversation with this system message"
cp "$T/out" "$T/with-system"
check "/system is in the prompt" holds "$(windows) > $first"
say "hello"
r "${talk[@]}" --system "be brief" <"$T/in"
check "--system is the same" cmp "$T/out" "$T/with-system"
say "/system be brief" "hello" "/reset" "hello"
r "${talk[@]}" <"$T/in"
check "/reset keeps the system message" cmp "$T/out" <(cat "$T/with-system" "$T/with-system")
say "/help" "hello"
r "${talk[@]}" <"$T/in"
check "an unknown command is explained, not sent" says "/reset forgets"
check "and the conversation goes on" cmp "$T/out" "$T/first"

# A full window: the oldest whole turns go, the system message stays.
say "one" "two" "three" "four" "five"
r "${talk[@]}" --system "be brief" --ctx 64 <"$T/in"
check "a full window ends nothing" ok
check "the oldest turns are dropped, and it says so" says "^\[the window is full: the oldest [0-9]+ turns? w(as|ere) dropped\]"
check "five answers" is "$(windows | wc -l)" 5
check "the window is never passed" is "$(windows | awk '$1 > 64' | wc -l)" 0
say "$(printf 'word %.0s' $(seq 60))" "hello"
r "${talk[@]}" --ctx 64 <"$T/in"
check "a message longer than the window is refused" says "^\[this message has [0-9]+ tokens; the window has 64\]"
check "and the conversation goes on" cmp "$T/out" "$T/first"
say "hello" "$(printf 'word %.0s' $(seq 60))" "more"
r "${talk[@]}" --ctx 64 <"$T/in"
cp "$T/out" "$T/refused"
say "hello" "more"
r "${talk[@]}" --ctx 64 <"$T/in"
check "a refused message leaves the turns before it in place" cmp "$T/out" "$T/refused"
printf 'a\xffb\nhello\n' >"$T/in"
r "${talk[@]}" <"$T/in"
check "a line that is not UTF-8 is refused" says "^\[not UTF-8 at byte 1\]"
check "and the conversation goes on" cmp "$T/out" "$T/first"
: >"$T/in"
r "${talk[@]}" <"$T/in"
check "an empty conversation ends well" ok
printf '{{ raise_exception("no") }}' >"$T/no.jinja"
say "hello"
r chat -m "$TEXT" --chat-template "$T/no.jinja" <"$T/in"
check "a template that refuses a turn ends nothing" is "$status $(grep -c '^\[.*no\]' "$T/err")" "0 1"

# Ctrl-C stops the answer; the conversation goes on. The answer would take half a minute.
"$TOOL" model "$T/long" 6 256 4 2 512 512 200000
cp tests/data/gguf/tiny-llama-tokenizer/tokenizer*.json "$T/long"
mkfifo "$T/pipe"
# interrupt NAME PROGRAM…: on one rank the signal reaches it; on several the launcher passes it on through mpirun.
interrupt() {
  local name=$1
  shift
  "$@" chat -m "$T/long" --chat-template "$T/t.jinja" --ctx 50000 --max-tokens 49000 --ignore-eos --temperature 0 -t 1 \
    <"$T/pipe" >"$T/out" 2>"$T/err" &
  pid=$!
  exec 3>"$T/pipe"
  echo hello >&3
  for i in $(seq 200); do [ "$(wc -c <"$T/out")" -gt 200 ] && break; sleep 0.1; done
  kill -INT $pid
  for i in $(seq 200); do grep -q stopped "$T/err" && break; sleep 0.1; done
  check "$name: Ctrl-C stops the answer" says "^\[stopped\]"
  check "$name: the program lives" kill -0 $pid
  printf '/reset\n' >&3
  exec 3>&-
  for i in $(seq 200); do kill -0 $pid 2>/dev/null || break; sleep 0.1; done
  check "$name: the next line is heard" says "^\[forgotten\]"
  check "$name: and it ends by itself" not kill -0 $pid
  kill -9 $pid 2>/dev/null
  wait $pid
  status=$?
  check "$name: well" ok
}
interrupt "one rank" "$RANK"
ranks2() { exec "$M" "$@" -n 2; }
interrupt "2 ranks" ranks2

# ---- a template of another model ------------------------------------------------------------------------------------------
cat >"$T/other.jinja" <<'JINJA'
{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>{{ m.content }}<|eot_id|>{% endfor %}
JINJA
r generate -m "$MIRIM" --chat --chat-template "$T/other.jinja" -p Hello --max-tokens 4 --temperature 0
check "a template of another model is taken" ok
check "and warned of, by the marker's name" says "do not fit: <\|start_header_id\|>"
r generate -m "$MIRIM" --chat -p "What is the capital of Brazil?" --max-tokens 24 --temperature 0
check "the model's own template" ok
check "is not warned of" not says "do not fit"

finish
