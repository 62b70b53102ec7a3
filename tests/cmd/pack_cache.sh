#!/usr/bin/env bash
# --pack-cache: the same bytes with it and without, on any number of ranks; what is stale or damaged is noticed, named and
# replaced; what cannot be written is no failure. And how far loading is, on a terminal and elsewhere.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

MODEL=$T/model # 2.6 million parameters in bf16
"$TOOL" model "$MODEL" 3 256 8 4 768 1024 512 || exit 1
ids=1,2,3,4,5,6,7
C=$T/cache
slices() { ls "$C" | grep -c '\.slice$'; }
from_cache() { grep -c 'packed weights from' "$T/err"; }
kept() { grep -c 'packed weights kept' "$T/err"; }
warnings() { grep -c 'warning' "$T/err"; }

# ---- the same bytes (also of a GGUF file whose q and k are interleaved) ------------------------------------------------------
for model in "$MODEL" "$TEXT"; do
  r logits -m "$model" --ids $ids --out "$T/ref"
  for n in 1 2 3; do
    rm -rf "$C"
    m logits -m "$model" -n $n --ids $ids --pack-cache "$C" -v --out "$T/l"
    check "$n ranks: first start" is "$status $(kept) $(slices) $(warnings)" "0 $n $n 0"
    check "$n ranks: its bytes" cmp "$T/l" "$T/ref"
    m logits -m "$model" -n $n --ids $ids --pack-cache "$C" -v --out "$T/l"
    check "$n ranks: second start" is "$status $(from_cache) $(kept) $(warnings)" "0 $n 0 0"
    check "$n ranks: its bytes" cmp "$T/l" "$T/ref"
  done
done
m logits -m "$MODEL" -n 2 --ids $ids --pack-cache "$C" -v
read2=$(grep -oE '[0-9.]+ MiB read here' "$T/err" | awk '{ s += $1 } END { print s }')
m logits -m "$MODEL" -n 2 --ids $ids --pack-cache "$C" -v --out "$T/l"
read=$(grep -oE '[0-9.]+ MiB read here' "$T/err" | awk '{ s += $1 } END { print s }')
check "of the model only headers, vectors and a few pages are read again" holds "$read < 0.3 && $read2 > 4"
check "2 and 3 ranks of two models lie side by side" is "$(slices)" 5
r logits -m "$MODEL" --ids $ids --pack-cache "$C" --out "$T/ref"

# Threads and instruction set do not matter: the layout is everybody's. Another route of exchange does not either.
for how in "-t 3" "--isa ref" "-t 1"; do
  m logits -m "$MODEL" -n 2 --ids $ids $how --pack-cache "$C" -v --out "$T/l"
  check "$how: from the same files" is "$status $(from_cache) $(cmp "$T/l" "$T/ref" && echo same)" "0 2 same"
done
rm -rf "$C"
MUTIRAO_SHARED_MEMORY=0 m logits -m "$MODEL" -n 3 --ids $ids --pack-cache "$C" -v --out "$T/l"
check "without shared memory" is "$status $(kept) $(cmp "$T/l" "$T/ref" && echo same)" "0 3 same"
m logits -m "$MODEL" -n 3 --ids $ids --pack-cache "$C" -v --out "$T/l"
check "and then with it" is "$status $(from_cache) $(cmp "$T/l" "$T/ref" && echo same)" "0 3 same"
if "$RANK" logits -m "$MODEL" --ids $ids --backend openblas --out "$T/blas" 2>/dev/null; then
  r logits -m "$MODEL" --ids $ids --backend openblas --pack-cache "$C" --out "$T/l"
  r logits -m "$MODEL" --ids $ids --backend openblas --pack-cache "$C" -v --out "$T/l"
  check "openblas has files of its own" is "$(from_cache) $(cmp "$T/l" "$T/blas" && echo same)" "1 same"
else
  echo "skipped --backend openblas: it cannot be loaded"
fi

# ---- stale, damaged, missing ---------------------------------------------------------------------------------------------------
rm -rf "$C"
m logits -m "$MODEL" -n 2 --ids $ids --pack-cache "$C"
again() { # NAME RANK WORDS: warned by that rank alone, right bytes, and then good again
  r logits -m "$MODEL" --ids $ids --out "$T/ref"
  m logits -m "$MODEL" -n 2 --ids $ids --pack-cache "$C" --out "$T/l"
  check "$1: is noticed" is "$status $(warnings) $(grep -cE "$3" "$T/err")" "0 ${4:-1} ${4:-1}"
  [ "$2" = 1 ] && check "$1: by rank 1" says "rank 1: warning: $C/.*-1of2.slice: "
  check "$1: right bytes" cmp "$T/l" "$T/ref"
  m logits -m "$MODEL" -n 2 --ids $ids --pack-cache "$C" -v --out "$T/l"
  check "$1: replaced" is "$status $(warnings) $(from_cache) $(cmp "$T/l" "$T/ref" && echo same)" "0 0 2 same"
}
zero=$(ls "$C"/*-0of2.slice) one=$(ls "$C"/*-1of2.slice)
flip() { # FILE OFFSET
  local byte
  byte=$(od -An -tu1 -j "$2" -N 1 "$1")
  printf "\\x$(printf %02x $((byte ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
flip "$one" 1234567
again "a bit of the data" 1 "damaged between bytes .*packed anew"
flip "$one" 30
again "a bit of the header" 1 "header is damaged"
truncate -s 1000000 "$one"
again "a short file" 1 "truncated"
: >"$one"
again "an empty file" 1 "truncated"
head -c 3000000 /dev/urandom >"$one"
again "any bytes" 1 "not made by this version"
echo more >>"$one"
again "a longer file" 1 "it has [0-9]+ bytes instead of"
cp "$zero" "$one"
again "another rank's" 1 "another rank's"
m logits -m "$MODEL" -n 3 --ids $ids --pack-cache "$C"
cp "$C"/*-1of3.slice "$one"
again "another number of ranks" 1 "another rank's"
rm "$C"/*of3.slice
m logits -m "$TEXT" -n 2 --ids $ids --pack-cache "$C"
mv "$C"/tiny*-1of2.slice "$one"
again "another model's" 1 "the model has another size"
rm "$C"/tiny*

# Links are followed to read, replaced when written, and never written through.
mv "$one" "$T/elsewhere"
ln -s "$T/elsewhere" "$one"
m logits -m "$MODEL" -n 2 --ids $ids --pack-cache "$C" -v --out "$T/l"
check "a link to a good file is read" is "$status $(warnings) $(from_cache) $(cmp "$T/l" "$T/ref" && echo same)" "0 0 2 same"
flip "$T/elsewhere" 1234567
cp "$T/elsewhere" "$T/before"
again "a link to a damaged file" 1 "damaged between bytes"
check "the link is replaced, not what it leads to" is "$([ -L "$one" ] || cmp "$T/elsewhere" "$T/before" && echo same)" same
for to in /dev/zero /dev/tty "$T"; do
  ln -sf "$to" "$T/link" && mv -T "$T/link" "$one"
  again "a link to $to" 1 "not regular|not a regular file|No such device"
done
ln -sf "$T/nowhere" "$T/link" && mv -T "$T/link" "$one"
m logits -m "$MODEL" -n 2 --ids $ids --pack-cache "$C" -v --out "$T/l"
check "a link to nowhere is replaced" is "$status $(warnings) $(kept) $([ -f "$T/nowhere" ] || cmp "$T/l" "$T/ref" && echo same)" "0 0 1 same"
rm "$one"
echo precious >"$T/precious"
ln -s "$T/precious" "$one.new"
m logits -m "$MODEL" -n 2 --ids $ids --pack-cache "$C" --out "$T/l"
check "a link where it is written is refused" is "$status $(grep -c 'not kept: .*symbolic link' "$T/err") $(cat "$T/precious")" "0 1 precious"
rm "$one.new"
ln "$T/precious" "$one.new"
m logits -m "$MODEL" -n 2 --ids $ids --pack-cache "$C" --out "$T/l"
check "a file of another name too" is "$status $(grep -c 'not kept: .*other names' "$T/err") $(cat "$T/precious")" "0 1 precious"
rm "$one.new"
for node in "mkfifo $one.new" "mkdir $one.new"; do
  $node
  m logits -m "$MODEL" -n 2 --ids $ids --pack-cache "$C" --out "$T/l"
  check "$node: goes on and says so" is "$status $(grep -c 'not kept: ' "$T/err") $(cmp "$T/l" "$T/ref" && echo same)" "0 1 same"
  rm -rf "$one.new"
done
m logits -m "$MODEL" -n 2 --ids $ids --pack-cache "$C"
rm "$one"
mkdir "$one"
m logits -m "$MODEL" -n 2 --ids $ids --pack-cache "$C" --out "$T/l"
check "a directory in its place is no failure" is "$status $(cmp "$T/l" "$T/ref" && echo same)" "0 same"
check "and said" says "not a regular file; the weights are packed anew"
check "twice" says "packed weights are not kept: .*directory"
rmdir "$one"
m logits -m "$MODEL" -n 2 --ids $ids --pack-cache "$C" -v --out "$T/l"
check "one that is missing is made, the other stays" is "$status $(warnings) $(kept) $(cmp "$T/l" "$T/ref" && echo same)" "0 0 1 same"
check "nothing is left behind" is "$(ls "$C" | grep -vc '\.slice$')" 0

# A length that is not the asked one takes no memory for its hashes: it is said before they are looked at.
cp "$one" "$T/before"
printf '\0\0\0\0\0\1\0\0' | dd of="$one" bs=1 seek=56 conv=notrunc 2>"$T/dd" && truncate -s 2T "$one"
again "a length of a TiB" 1 "weights lay otherwise"

# The model changes while it is read, before the cache is made: what was packed is neither.
cat >"$T/hook.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
int mkdir(const char *path, mode_t mode) {
  int (*real)(const char *, mode_t) = (int (*)(const char *, mode_t))dlsym(RTLD_NEXT, "mkdir");
  const char *dir = getenv("HOOK_DIR"), *command = getenv("HOOK");
  if (dir && command && !strcmp(path, dir)) {
    unsetenv("LD_PRELOAD");
    if (system(command)) abort();
  }
  return real(path, mode);
}
C
${CC:-cc} -shared -fPIC -o "$T/hook.so" "$T/hook.c" -ldl || exit 1
cp -r "$MODEL" "$T/moving"
HOOK_DIR=$T/moved HOOK="'$TOOL' poke '$T/moving/model.safetensors' model.layers.1.mlp.down_proj.weight 5 3f80" \
  LD_PRELOAD=$T/hook.so r logits -m "$T/moving" --ids $ids --pack-cache "$T/moved" --out "$T/l"
check "a model that changes while it is read" is "$status $(cmp "$T/l" "$T/ref" && echo same)" "0 same"
check "is not kept" says "not kept: the model was modified while it was read"
check "nothing is there" is "$(ls "$T/moved" | wc -l)" 0

"$TOOL" poke "$MODEL/model.safetensors" model.layers.1.mlp.down_proj.weight 5 3f80
again "a model that was changed" 0 "the model was modified since" 2
"$TOOL" model "$MODEL" 3 256 8 4 640 1024 512
again "another model of the same name" 0 "the model has another size" 2
check "replaced, not added" is "$(slices)" 2

# Two trainings of one model: the same size, header and time of modification.
SYNTH=$BUILD/bench/synth
TWIN="$SYNTH --out $T/twin.gguf --type Q8_0 --layers 2 --hidden 256 --heads 8 --kv-heads 4 --ffn 768 --vocab 1024"
for seed in 1 2; do
  $TWIN --seed $seed || exit 1
  touch -d @1 "$T/twin.gguf"
  r logits -m "$T/twin.gguf" --ids $ids --out "$T/twin$seed"
  r logits -m "$T/twin.gguf" --ids $ids --pack-cache "$T/twins" --out "$T/l"
  check "twin $seed: its bytes" is "$status $(cmp "$T/l" "$T/twin$seed" && echo same)" "0 same"
  [ $seed = 1 ] || check "its former weights are noticed" says "the model has other contents"
done
check "they differ" not cmp "$T/twin1" "$T/twin2"

# ---- where nothing can be kept ----------------------------------------------------------------------------------------------------
echo x >"$T/file"
r logits -m "$MODEL" --ids $ids --out "$T/ref"
for dir in "$T/file" "$T/no/such/place" /proc/mutirao; do
  r logits -m "$MODEL" --ids $ids --pack-cache "$dir" --out "$T/l"
  check "$dir: goes on" is "$status $(cmp "$T/l" "$T/ref" && echo same)" "0 same"
  check "$dir: says why" says "warning: the packed weights are not kept: $dir"
done
r logits -m "$MODEL" --ids $ids --pack-cache "$T/file" --out "$T/l" -q
check "-q says nothing of it" is "$status $(wc -c <"$T/err")" "0 0"
(ulimit -f 1000 && r logits -m "$MODEL" --ids $ids --pack-cache "$T/limited" --out "$T/l" && exit "$status")
check "ulimit -f: goes on" is "$? $(cmp "$T/l" "$T/ref" && echo same) $(ls "$T/limited" | wc -l)" "0 same 0"
check "ulimit -f: says why" says "warning: the packed weights are not kept: .*File too large"

# Nobody may read or write there. Root may always, unless it gives that up.
MAY=
[ "$(id -u)" != 0 ] || MAY="setpriv --bounding-set=-dac_override,-dac_read_search"
if $MAY true 2>/dev/null && ! (mkdir "$T/closed" && chmod 0 "$T/closed" && $MAY ls "$T/closed") 2>/dev/null; then
  run 60 $MAY "$RANK" logits -m "$MODEL" --ids $ids --pack-cache "$T/closed" --out "$T/l"
  check "a closed directory: goes on" is "$status $(cmp "$T/l" "$T/ref" && echo same)" "0 same"
  check "a closed directory: says why" says "warning: .*Permission denied; the weights are packed anew"
  chmod 700 "$T/closed"
  r logits -m "$MODEL" --ids $ids --pack-cache "$T/closed"
  chmod 0 "$T"/closed/*.slice
  run 60 $MAY "$RANK" logits -m "$MODEL" --ids $ids --pack-cache "$T/closed" --out "$T/l"
  check "a closed file is replaced" is "$status $(grep -c 'Permission denied' "$T/err") $(cmp "$T/l" "$T/ref" && echo same)" "0 1 same"
  chmod 500 "$T/closed"
  run 60 $MAY "$RANK" logits -m "$MODEL" --ids $ids --pack-cache "$T/closed" -v --out "$T/l"
  check "a directory that can only be read is read" is "$status $(from_cache) $(cmp "$T/l" "$T/ref" && echo same)" "0 1 same"
  chmod 700 "$T/closed"
else
  echo "skipped a closed directory: root cannot give up its rights (setpriv)"
fi
mkdir -p "$T/no"
run 60 unshare -m sh -c "mount -t tmpfs -o size=2m tmpfs '$T/no' && '$RANK' logits -m '$MODEL' --ids $ids --pack-cache '$T/no' --out '$T/l' && ls '$T/no'"
if says "unshare|mount:"; then
  echo "skipped a full disk: no right to mount"
else
  check "a full disk: goes on, says so, leaves nothing" is \
    "$status $(grep -c 'not kept: .*No space left' "$T/err") $(wc -c <"$T/out")" "0 1 0"
fi

# ---- several at once ------------------------------------------------------------------------------------------------------------------
rm -rf "$C"
for i in 1 2 3 4; do
  "$RANK" logits -m "$MODEL" --ids $ids --pack-cache "$C" -t 1 --out "$T/at$i" 2>"$T/err$i" &
done
wait
check "four jobs at once: right bytes" is "$(for i in 1 2 3 4; do cmp "$T/at$i" "$T/ref" && echo same; done | sort | uniq -c | xargs)" "4 same"
check "no complaint" is "$(cat "$T"/err[1-4] | wc -c)" 0
r logits -m "$MODEL" --ids $ids --pack-cache "$C" -v --out "$T/l"
check "one good file" is "$(from_cache) $(ls "$C" | wc -l)" "1 1"

# ---- the configuration file ---------------------------------------------------------------------------------------------------------------
printf 'pack-cache: %s/configured\n' "$T" >"$T/c.yaml"
m logits -m "$MODEL" -n 1 --ids $ids --config "$T/c.yaml" --out "$T/l"
check "from the configuration file" is "$status $(ls "$T/configured" | wc -l)" "0 1"

# ---- how far loading is --------------------------------------------------------------------------------------------------------------------
"$SYNTH" --out "$T/large.gguf" --type Q8_0 --layers 2 --vocab 8000 || exit 1 # 130 MB
m logits -m "$T/large.gguf" -n 1 --ids 1,2 --last --out "$T/l"
check "not a terminal: nothing" is "$status $(wc -c <"$T/err")" "0 0"
for n in 1 2; do
  m logits -m "$T/large.gguf" -n $n --ids 1,2 --last --out "$T/l" -v
  check "$n ranks, -v: three lines" is "$(grep -cE 'loading [0-9.]+ of [0-9.]+ GB.*, [0-9.]+ GB/s, [0-9]+ s left$' "$T/err")" 3
done
if command -v script >/dev/null; then
  for n in 1 2; do
    run 60 script -qec "$M logits -m $T/large.gguf -n $n --ids 1,2 --last --out $T/l" /dev/null
    check "$n ranks, a terminal: one line that changes" grep -qP '\rloading [0-9.]+ of [0-9.]+ GB.* GB/s, [0-9]+ s left\x1b\[K' "$T/out"
    check "$n ranks, a terminal: and goes" is "$(tr -d '\n' <"$T/out" | tail -c 4 | od -An -tx1)" " 0d 1b 5b 4b"
  done
  run 60 script -qec "$M logits -m $T/large.gguf -n 1 --ids 1,2 --last --out $T/l -q" /dev/null
  check "a terminal, -q: nothing" silent
else
  echo "skipped a terminal: no script(1)"
fi

# ---- killed while it writes ----------------------------------------------------------------------------------------------------------------
K=$T/killed
r logits -m "$T/large.gguf" --ids $ids --last --out "$T/ref"
partial() { ls "$K" 2>/dev/null | grep -c '\.new$'; }
for try in $(seq 20); do
  rm -rf "$K"
  mkdir "$K"
  "$RANK" logits -m "$T/large.gguf" --ids $ids --last --pack-cache "$K" -q &
  job=$! name=
  while kill -0 $job 2>/dev/null; do
    name=$(echo "$K"/*.new)
    [ -s "$name" ] && break
  done
  kill -9 $job 2>/dev/null
  wait $job 2>/dev/null
  [ "$(partial) $(ls "$K" | wc -l)" = "1 1" ] && break
done
if [ "$(partial)" = 1 ]; then
  r logits -m "$T/large.gguf" --ids $ids --last --pack-cache "$K" -v --out "$T/l"
  check "killed while it wrote: made anew" is "$status $(warnings) $(kept) $(partial) $(cmp "$T/l" "$T/ref" && echo same)" "0 0 1 0 same"
  r logits -m "$T/large.gguf" --ids $ids --last --pack-cache "$K" -v --out "$T/l"
  check "and good" is "$status $(warnings) $(from_cache) $(cmp "$T/l" "$T/ref" && echo same)" "0 0 1 same"
else
  echo "skipped a kill: it was always too late"
fi
finish
