# For the tests of the launcher (to be sourced): a copy of it beside a mutirao-rank that records its arguments and
# environment, with an mpirun and an srun in PATH that do the same.
set -u
root=${MUTIRAO_ROOT:-$PWD} build=${BUILD:-build}
case $build in /*) ;; *) build=$root/$build ;; esac
box=$(mktemp -d) || exit 1
trap 'rm -rf "$box"' EXIT
cp "$build/bin/mutirao" "$box/" || exit 1
export BOX=$box

cat >"$box/mutirao-rank" <<'SCRIPT'
#!/bin/bash
if [ "${1:-}" = --describe ]; then
  env >"$BOX/describe.env"
  cat "$BOX/describe.json"
  exit "${DESCRIBE_STATUS:-0}"
fi
printf '%s\n' "$@" >"$BOX/rank.args"
env >"$BOX/rank.env"
cat >"$BOX/rank.stdin"
exit "${RANK_STATUS:-0}"
SCRIPT
mkdir "$box/bin" "$box/empty"
for starter in mpirun srun; do
  cat >"$box/bin/$starter" <<'SCRIPT'
#!/bin/bash
name=$(basename "$0")
printf '%s\n' "$@" >"$BOX/$name.args"
env >"$BOX/$name.env"
cat >"$BOX/$name.stdin"
exit "${RANK_STATUS:-0}"
SCRIPT
done
chmod +x "$box/mutirao-rank" "$box"/bin/*
echo '{"numa_domains": 3}' >"$box/describe.json"
for tool in bash cat env basename ssh; do ln -s "$(command -v $tool || echo /bin/true)" "$box/bin/$tool"; done
cp -P "$box/bin/"{bash,cat,env,basename} "$box/empty/" # no starter, no ssh

checks=0 failures=0
fail() {
  failures=$((failures + 1))
  echo "check failed: $*"
}
# launch [VAR=VALUE ...] -- ARGS: runs with nothing else in the environment; fills $status, $err
launch() {
  local vars=()
  while [ "$1" != -- ]; do vars+=("$1") && shift; done
  shift
  rm -f "$box"/*.args "$box"/*.env "$box"/*.stdin
  err=$(echo typed | env -i BOX="$box" PATH="$box/bin" "${vars[@]}" "$box/mutirao" "$@" 2>&1 >/dev/null)
  status=$?
}
args_are() { # which ARGS
  local which=$1 want got
  shift
  checks=$((checks + 1))
  want=$(printf '%s ' "$@") got=$(tr '\n' ' ' <"$box/$which.args" 2>/dev/null)
  [ "$got" = "$want" ] || fail "$which was started with: $got, not: $want ($err)"
}
env_has() {
  checks=$((checks + 1))
  grep -qx "$2" "$box/$1.env" || fail "$1: no $2 in its environment"
}
env_lacks() {
  checks=$((checks + 1))
  ! grep -q "^$2" "$box/$1.env" || fail "$1: $2 in its environment"
}
stdin_is() {
  checks=$((checks + 1))
  [ "$(cat "$box/$1.stdin")" = "$2" ] || fail "$1 read '$(cat "$box/$1.stdin")', not '$2'"
}
refused() { # STATUS PART
  checks=$((checks + 1))
  [ "$status" -eq "$1" ] && [[ $err == *"$2"* ]] && [ "$(wc -l <<<"$err")" -eq 1 ] ||
    fail "status $status, not $1, or no '$2' in: $err"
  [ ! -e "$box/mpirun.args" ] && [ ! -e "$box/srun.args" ] && [ ! -e "$box/rank.args" ] || fail "started all the same"
}
