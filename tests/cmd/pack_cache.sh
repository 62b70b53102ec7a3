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
check "of the model only headers and vectors are read again" holds "$read < 0.2 && $read2 > 4"
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
cp "$zero" "$one"
again "another rank's" 1 "another rank's"
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

"$TOOL" poke "$MODEL/model.safetensors" model.layers.1.mlp.down_proj.weight 5 3f80
again "a model that was changed" 0 "the model was modified since" 2
"$TOOL" model "$MODEL" 3 256 8 4 640 1024 512
again "another model of the same name" 0 "the model has another size" 2
check "replaced, not added" is "$(slices)" 2

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
SYNTH=$BUILD/bench/synth
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
finish
