#!/usr/bin/env bash
# --config: what a file sets, what wins over it, what is refused and on which line.
source "$(dirname "${BASH_SOURCE[0]}")/box.bash"

file=$box/c.yaml
with() { # content, then the command line
  printf '%s\n' "$1" >"$file"
  launch -- "${@:2}" --config "$file"
}

with 'threads: 2
kv-type: q8' bench -n 1
args_are rank bench --kv-type=q8 --threads=2 --ranks=1
# The command line wins, also over lists; lists and switches in all their forms.
with 'ranks: 2
generate:
  prompt: "two words"
  stop: [a, "b c"]
  logit-bias: ["5=-1.5"]
  ids-out: f
  ignore-eos: yes
  echo: false
verbose: 2' generate -n 1
args_are rank generate '--prompt=two words' --ids-out=f --logit-bias=5=-1.5 --stop=a '--stop=b c' --ignore-eos \
  --verbose --verbose --ranks=1
with 'generate:
  prompt: x
  stop: [a, b]' generate -n 1 --stop c
args_are rank generate --prompt=x --ranks=1 --stop=c
with 'generate: {ids: [1, 2, 3]}' generate -n 1
args_are rank generate --ids=1,2,3 --ranks=1
with 'trace: {prompt: x, temperatures: [0.1, 2]}' trace -n 1
args_are rank trace --prompt=x --temperatures=0.1,2 --ranks=1
# A section is for its command and wins over the top level; a key that a command lacks is for the others.
with 'seed: 4
ctx: 100
score: {ctx: 50, file: f}
bench: {ctx: 60, prompt: 9}' score -n 1
args_are rank score --file=f --ctx=50 --ranks=1
with 'seed: 4
ctx: 100
bench: {prompt: 9}' bench -n 1
args_are rank bench --prompt=9 --ctx=100 --ranks=1
# How ranks are started may stand in the file too.
with 'ranks: 5
via: srun' bench
args_are srun --mpi=pmix --cpu-bind=none --kill-on-bad-exit=1 --quiet --unbuffered --input=none -n 5 \
  "$box/mutirao-rank" bench --ranks=5
with '# nothing' bench -n 1
args_are rank bench --ranks=1
with '' bench -n 1
args_are rank bench --ranks=1

with 'threads: 2
tempreature: 1' bench
refused 2 "$file:2: unknown key 'tempreature'"
with 'threads: 2
bench:
  repeat: 3
  window: 4' bench
refused 2 "$file:4: unknown key 'window'"
with 'seed: 4
top-p: 1.5' generate -p x
refused 2 "$file:2: --top-p: '1.5' is not in range (above 0, at most 1)"
with 'temperature: 1
generate:
  seed: 1
  temperature: hot' generate -p x
refused 2 "$file:4: --temperature: 'hot' is not a number"
with 'json: perhaps' bench
refused 2 "$file:1: --json: 'perhaps' is neither true nor false"
with 'chat:
  stop: [x, ""]' chat
refused 2 "$file:2: --stop: the text is empty"
with 'threads: [1, 2]' bench
refused 2 "$file:1: "
with 'bench:
  prompt: 3
 repeat: 4' bench
refused 2 "$file:"
with 'threads: 1
threads: 2' bench
refused 2 "already seen: threads"
with 'a: &x [1]
b: *x' bench
refused 2 "$file:"
with '- threads' bench
refused 2 "$file:"
with '{{{' bench
refused 2 "$file:1: not YAML"
with $'model: "\xff"' bench
refused 2 "$file:"
with 'config: other' bench
refused 2 "unknown key 'config'"
launch -- bench --config "$box/none.yaml"
refused 3 "$box/none.yaml"

# The one in the repository is whole.
for command in generate chat bench trace; do
  launch -- $command -n 1 --config "$root/configs/example.yaml"
  checks=$((checks + 1))
  [ "$status" -eq 0 ] && grep -qx -e --threads=2 "$box/rank.args" || fail "configs/example.yaml with $command: $err"
done

echo "$checks checks, $failures failed"
[ "$failures" -eq 0 ] && [ "$checks" -eq 29 ]
