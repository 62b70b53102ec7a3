#!/usr/bin/env bash
# What `make demo` shows: text from the model in the repository, computed by two processes together, and the same bytes
# from one, two and three.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
mutirao=${BUILD:-build}/bin/mutirao
prompt="Today's weather is so"
options=(--max-tokens 48 --temperature 0.7 --seed 7)

run() {
  echo "\$ mutirao $*" >&2
  "$mutirao" "$@"
}

echo "A small model, split across 2 processes; the text appears as it is computed."
echo
run generate -n 2 -p "$prompt" "${options[@]}" --echo || exit 1
echo
run generate -n 2 --chat -p "What is the capital of Brazil?" --max-tokens 48 --temperature 0 || exit 1

echo
echo "The same prompt on 1, 2 and 3 ranks (SHA-256 of the text):"
first= text=$(mktemp) || exit 1
trap 'rm -f "$text"' EXIT
for n in 1 2 3; do
  "$mutirao" generate -q -n "$n" -p "$prompt" "${options[@]}" >"$text" || exit 1
  hash=$(sha256sum <"$text" | cut -c1-32)
  echo "  $n rank(s)  $hash"
  if [ "$hash" != "${first:=$hash}" ]; then
    echo "Not equal: this is a fault in Mutirão; please report it." >&2
    exit 1
  fi
done
echo "Equal, as they must be."
