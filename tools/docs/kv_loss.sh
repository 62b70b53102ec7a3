#!/usr/bin/env bash
# What rounding the KV cache costs: logits and perplexity of tools/docs/text.txt with --kv-type f16 and q8 against f32.
# Prints the table of docs/kv-cache.md. Needs python3.
#   tools/docs/kv_loss.sh MODEL [TOKENS]      TOKENS: how many of the text's first tokens (default: all)
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
model=$1
PATH=${BUILD:-build}/bin:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mutirao tokenize -m "$model" <tools/docs/text.txt >"$work/all"
cut -d, -f1-"${2:-}" "$work/all" >"$work/ids"
for type in f32 f16 q8; do
  mutirao logits -q -n 1 -m "$model" --kv-type $type --ids "@$work/ids" --out "$work/$type"
  mutirao score -q -n 1 -m "$model" --kv-type $type --ids "@$work/ids" --json >"$work/$type.json"
done
python3 - "$work" <<'PYTHON'
import array, json, math, sys

def load(name):
    values = array.array("f")
    with open(f"{sys.argv[1]}/{name}", "rb") as f:
        values.frombytes(f.read())
    return values

tokens = open(sys.argv[1] + "/ids").read().count(",") + 1
exact = load("f32")
mean = math.fsum(exact) / len(exact)
std = math.sqrt(math.fsum((v - mean) ** 2 for v in exact) / len(exact))
vocab = len(exact) // tokens
best = [max(range(t * vocab, (t + 1) * vocab), key=exact.__getitem__) for t in range(tokens)]
print(f"{tokens} tokens, standard deviation of the logits {std:.3f}")
print("| cache | largest error | rms error | other first choice | perplexity |")
print("| --- | --- | --- | --- | --- |")
for name in ("f32", "f16", "q8"):
    with open(f"{sys.argv[1]}/{name}.json") as f:
        perplexity = json.load(f)["perplexity"]
    v = load(name)
    worst = max(abs(a - b) for a, b in zip(v, exact))
    rms = math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(v, exact)) / len(exact))
    other = sum(max(range(t * vocab, (t + 1) * vocab), key=v.__getitem__) != best[t] for t in range(tokens))
    print(f"| {name} | {worst / std:.1e} | {rms / std:.1e} | {other} of {tokens} | {perplexity:.5f} |")
PYTHON
