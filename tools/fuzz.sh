#!/usr/bin/env bash
# Each fuzzer for SECONDS_EACH, from its corpus in tests/fuzz/corpus, where new inputs that reach new code are kept.
# Afterwards the corpus is merged down to what matters. A finding is kept in BUILD/fuzz/found and fails the run.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
build=${BUILD:-build} seconds=${SECONDS_EACH:-60} status=0 ran=0
mkdir -p "$build/fuzz/found"
for source in tests/fuzz/fuzz_*.c; do
  name=$(basename "$source" .c)
  [[ $name == *"${1:-}"* ]] || continue
  short=${name#fuzz_}
  corpus=tests/fuzz/corpus/$short
  new=$build/fuzz/new/$short
  rm -rf "$new"
  mkdir -p "$corpus" "$new"
  dictionary=()
  [ -f "tests/fuzz/$short.dict" ] && dictionary=(-dict="tests/fuzz/$short.dict")
  echo "$name: $seconds s"
  ran=$((ran + 1))
  if "$build/fuzz/$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$build/fuzz/found/$short-" "${dictionary[@]}" "$new" "$corpus" >"$build/fuzz/$name.log" 2>&1; then
    grep -aE 'stat::(number_of_executed_units|new_units_added)' "$build/fuzz/$name.log" | sed 's/^/  /'
    "$build/fuzz/$name" -merge=1 "$corpus" "$new" >/dev/null 2>&1
  else
    echo "$name found something:"
    tail -n 30 "$build/fuzz/$name.log" | sed 's/^/  | /'
    status=1
  fi
done
[ "$ran" -gt 0 ] || { echo "no fuzzer of that name" && exit 1; }
exit $status
