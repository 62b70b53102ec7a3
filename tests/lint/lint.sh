#!/usr/bin/env bash
# Lint finds what it is for: a copy of the tree, with one fault at a time put in.
set -u
root=${MUTIRAO_ROOT:-$PWD} build=${BUILD:-build}
cd "$root" || exit 1
case $build in /*) ;; *) build=$root/$build ;; esac
box=$(mktemp -d) || exit 1
trap 'rm -rf "$box"' EXIT
mkdir -p "$box"/{src,tests} || exit 1
cp -R Makefile include tools "$box/" || exit 1
cp -R src/{base,json,opt,comm,launcher} "$box/src/" || exit 1 # enough, and quick
cd "$box" || exit 1
checks=0 failures=0
fail() {
  failures=$((failures + 1))
  echo "check failed: $*"
}
# finds PART TEXT FILE LINE: with LINE appended to FILE, the part fails and says TEXT, which it does not of the tree as
# it is.
declare -A before
finds() {
  local out
  [ -n "${before[$1]:-}" ] || before[$1]=$("tools/lint/$1" 2>&1; echo status $?)
  [[ ${before[$1]} != *"$2"* ]] || fail "$1 says '$2' of the tree as it is"
  checks=$((checks + 1))
  [ -e "$3" ] && cp "$3" "$box/saved"
  mkdir -p "$(dirname "$3")"
  printf '%b\n' "$4" >>"$3"
  out=$("tools/lint/$1" 2>&1) && fail "$1 did not fail with '$4' in $3"
  [[ $out == *"$2"* ]] || fail "$1 said, for '$4' in $3: $out"
  rm "$3"
  [ -e "$box/saved" ] && mv "$box/saved" "$3"
}

checks=$((checks + 1))
out=$(tools/lint/layers) || fail "layers: $out"
finds layers 'json (layer 1) may not include mutirao/cpu.h (layer 1)' src/json/x.c '#include "mutirao/cpu.h"'
finds layers 'base (layer 0) may not include mutirao/json.h' include/mutirao/base.h '#include "mutirao/json.h"'
finds layers 'kernel (layer 2) may not include mutirao/model.h' src/kernel/ref/x.c '  #  include "mutirao/model.h"'
finds layers 'only comm may include mpi.h' src/engine/x.c '#include <mpi.h>'
finds layers 'only json may include jansson.h' src/cmd/x.c '#include <jansson.h>'
finds layers 'only launcher may include cyaml/cyaml.h' src/cmd/x.c '#include <cyaml/cyaml.h>'
finds layers 'only kernel may include immintrin.h' src/model/x.c '#include <immintrin.h>'
finds layers 'only wire may include wire.pb-c.h' src/engine/x.c '#include "wire.pb-c.h"'
finds layers 'the launcher may not include mutirao/cpu.h' src/launcher/x.c '#include "mutirao/cpu.h"'
finds layers 'opt_priv.h is not a header of cmd' src/cmd/x.c '#include "../opt/opt_priv.h"'
finds layers '<zlib.h> has no owner' src/format/x.c '#include <zlib.h>'
finds layers "module 'extra' has no layer" src/extra/x.c '#include <stdio.h>'
finds layers 'mutirao/nothing.h belongs to no module' src/cmd/x.c '#include "mutirao/nothing.h"'

finds style 'function too long: src/base/x.c:2 (102 lines)' src/base/x.c "\nint f(void) {$(printf '\\n;%.0s' {1..100})\n}"
finds style 'file too long: src/base/x.c (802 lines)' src/base/x.c "$(printf ';\\n%.0s' {1..801})"
finds style 'more than 100 columns: src/base/x.c:1' src/base/x.c "/* $(printf 'a%.0s' {1..100}) */"
finds style 'tab: src/base/x.c:1' src/base/x.c '\tint x;'
finds style 'trailing blanks: src/base/x.c:1' src/base/x.c 'int x; '
finds style 'leftover: src/base/x.c:1' src/base/x.c '#if 0'
finds style 'leftover: src/base/x.c:1' src/base/x.c '/* TO''DO: more */'
finds style 'ends the process: src/json/x.c:1' src/json/x.c 'void f(void) { abort(); }'
finds style 'name without mt_: include/mutirao/x.h:1' include/mutirao/x.h 'int other(int a);'

finds flags 'sums that are not exact' Makefile 'CFLAGS += -DMT_PLAIN_SUMS'
finds flags 'a flag that changes results' Makefile 'CFLAGS += -ffast-math'
finds flags 'a flag that changes results' Makefile '$(BUILD)/obj/base/%.o: EXTRA = -march=native'
finds flags 'without -ffp-contract=off' Makefile 'STD := -std=c11'
finds flags 'in the Makefile only' src/base/x.c '#pragma STDC FP_CONTRACT ON'

# Symbols: an object that calls libm, where the numeric path lies, where it does not, and exact functions.
mkdir -p build/obj/{model,cmd,kernel}
symbols() { # directory, what it calls
  rm -f build/obj/*/*.o
  echo "double $2; double mt_f(double x); double mt_f(double x) { return ${2%%(*}(x); }" |
    cc -x c -O0 -fno-builtin -c -o "build/obj/$1.o" - || fail "cannot compile"
  tools/lint/symbols build
}
checks=$((checks + 1))
symbols model/x 'fabs(double)' >/dev/null || fail "symbols refuses mt_f"
echo 'int f(void); int f(void) { return 0; }' | cc -x c -c -o build/obj/model/x.o - || fail 'cannot compile'
[[ $(tools/lint/symbols build) == *"global names without mt_: f "* ]] || fail 'symbols passes a global f'
for name in exp expf log pow sqrt fma sincos tanhf; do
  checks=$((checks + 1))
  out=$(symbols model/x "$name(double)") && fail "symbols passes $name"
  [[ $out == *"model/x.o calls libm: $name "* ]] || fail "symbols says of $name: $out"
done
for name in rint floor fabs ldexp; do
  checks=$((checks + 1))
  out=$(symbols kernel/x "$name(double)") || fail "symbols: $out"
done
checks=$((checks + 1))
out=$(symbols cmd/x 'exp(double)') && fail "symbols passes a tree without numeric objects"
[[ $out == *'no objects'* ]] || fail "symbols: $out"

echo "$checks checks, $failures failed"
[ "$failures" -eq 0 ] && [ "$checks" -gt 35 ]
