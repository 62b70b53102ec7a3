#!/usr/bin/env bash
# Documentation that is true: runs every fenced block marked ```sh run in README.md and docs/*.md, checks that every
# option of every mutirao command line shown is in that command's --help, and that every relative link leads somewhere.
#   tests/docs/test_docs.sh [FILE...]
# A block is one script (bash -euo pipefail) with a deadline. It runs in a scratch folder that has everything of the
# repository's root as links, so that what it writes is not left behind. Environment: BUILD (build), BLOCK_S (60).
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
root=$PWD build=${BUILD:-build} deadline=${BLOCK_S:-60}
case $build in /*) ;; *) build=$root/$build ;; esac
export PATH=$build/bin:$PATH
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
command -v ssh rsh >/dev/null || export OMPI_MCA_plm=isolated

files=("$@")
[ $# -gt 0 ] || files=(README.md docs/*.md)
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0
pass() { passed=$((passed + 1)); }
fail() {
  failed=$((failed + 1))
  echo "check failed: $*"
}

# Writes each block to $scratch/N.block; the first line is a comment that says where it stands.
extract() {
  awk -v dir="$scratch" '
    FNR == 1 { if (inside) { print "unclosed block in " file > "/dev/stderr"; exit 1 } file = FILENAME }
    !inside && /^ *```sh run *$/ {
      inside = 1; n++
      indent = index($0, "`") - 1
      out = sprintf("%s/%03d.block", dir, n)
      printf "# %s:%d\n", FILENAME, FNR > out
      next
    }
    inside && /^ *``` *$/ { inside = 0; close(out); next }
    inside { print substr($0, indent + 1) > out }
    END { exit inside }' "$@"
}

# One passed check if what runs finds no fault.
as_one() {
  local before=$failed
  "$@"
  [ "$failed" -ne "$before" ] || pass
}

run_block() {
  local where log=$scratch/log work=$scratch/work entry status seconds=$SECONDS
  where=$(sed -n '1s/^# //p' "$1")
  mkdir "$work"
  for entry in "$root"/*; do ln -s "$entry" "$work/"; done
  (cd "$work" && timeout -k 5 "$deadline" bash -euo pipefail "$1" </dev/null >"$log" 2>&1)
  status=$?
  rm -rf "$work"
  [ "${V:-0}" = 1 ] && echo "$where: $((SECONDS - seconds)) s"
  if [ $status -eq 0 ]; then
    pass
  else
    fail "$where: exit status $status"
    sed 's/^/    /' "$1"
    tail -n 12 "$log" | sed 's/^/    | /'
  fi
}

check_options() {
  local file line text command option help
  while IFS=: read -r file line text; do
    command=$(sed -E 's/.*mutirao ([a-z]+).*/\1/' <<<"$text")
    help=$(mutirao "$command" --help 2>/dev/null) || {
      fail "$file:$line: no command $command"
      continue
    }
    text=${text#*mutirao "$command"}
    text=${text%%\`*} # what follows a code span is prose
    for option in $(grep -oE -- '(^| )--?[a-z][a-z-]*' <<<"${text%%|*}"); do
      grep -qE -- "(^|[ ,])$option([ ,=]|\$)" <<<"$help" || fail "$file:$line: $command has no $option"
    done
  done < <(grep -HnoE 'mutirao (generate|chat|score|logits|tokenize|inspect|bench|trace) .*' "${files[@]}" \
    CONTRIBUTING.md configs/* deploy/* 2>/dev/null)
}

check_links() {
  local file target
  while IFS=: read -r file target; do
    target=${target#*](}
    target=${target%)}
    target=${target%%#*}
    case $target in '' | http*://*) continue ;; esac
    [ -e "$(dirname "$file")/$target" ] || fail "$file: link to $target, which is not there"
  done < <(grep -HoE '\]\([^) ]+\)' "${files[@]}")
}

extract "${files[@]}" || fail "a block marked for running is not closed"
as_one check_links
if [ ! -x "$build/bin/mutirao" ]; then
  fail "$build/bin/mutirao is not there; build first"
else
  as_one check_options
  if [ -d models/mirim ]; then
    for block in "$scratch"/*.block; do [ -e "$block" ] && run_block "$block"; done
  else
    echo "skipped: the commands of the documentation (models/mirim is not there)"
  fi
fi
echo "result: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
