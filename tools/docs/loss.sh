#!/usr/bin/env bash
# What a rounding costs: logits and perplexity of tools/docs/text.txt with some values of an option against its first.
# Prints a table of docs/kv-cache.md (kv-type) or docs/kernels.md (activations). Needs python3.
#   tools/docs/loss.sh kv-type|activations MODEL [TOKENS]      TOKENS: how many of the text's first tokens (default: all)
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
option=$1 model=$2
case $option in
  kv-type) values="f32 f16 q8" ;;
  activations) values="int16 int8" ;;
  *) exit 2 ;;
esac
PATH=${BUILD:-build}/bin:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mutirao tokenize -m "$model" <tools/docs/text.txt >"$work/all"
cut -d, -f1-"${3:-}" "$work/all" >"$work/ids"
for value in $values; do
  mutirao logits -q -n 1 -m "$model" --$option $value --ids "@$work/ids" --out "$work/$value"
  mutirao score -q -n 1 -m "$model" --$option $value --ids "@$work/ids" --json >"$work/$value.json"
done
python3 - "$work" $values <<'PYTHON'
import array, json, math, sys

def load(name):
    values = array.array("f")
    with open(f"{sys.argv[1]}/{name}", "rb") as f:
        values.frombytes(f.read())
    return values

tokens = open(sys.argv[1] + "/ids").read().count(",") + 1
exact = load(sys.argv[2])
mean = math.fsum(exact) / len(exact)
std = math.sqrt(math.fsum((v - mean) ** 2 for v in exact) / len(exact))
vocab = len(exact) // tokens
best = [max(range(t * vocab, (t + 1) * vocab), key=exact.__getitem__) for t in range(tokens)]
print(f"{tokens} tokens, standard deviation of the logits {std:.3f}")
print("| value | largest error | rms error | other first choice | perplexity |")
print("| --- | --- | --- | --- | --- |")
for name in sys.argv[2:]:
    with open(f"{sys.argv[1]}/{name}.json") as f:
        perplexity = json.load(f)["perplexity"]
    v = load(name)
    worst = max(abs(a - b) for a, b in zip(v, exact))
    rms = math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(v, exact)) / len(exact))
    other = sum(max(range(t * vocab, (t + 1) * vocab), key=v.__getitem__) != best[t] for t in range(tokens))
    print(f"| {name} | {worst / std:.1e} | {rms / std:.1e} | {other} of {tokens} | {perplexity:.5f} |")
PYTHON
