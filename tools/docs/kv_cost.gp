# The picture of docs/img/kv-cost.csv; run by kv_cost.sh from the repository's root.
set terminal svg size 640,380 font "sans-serif,13" background "white"
set output "docs/img/kv-cost.svg"
set datafile separator ","
set key top left Left reverse
set grid
set xrange [0:520]
set xlabel "output tokens"
set ylabel "CPU seconds, 1 rank, 1 thread"
plot "docs/img/kv-cost.csv" using 1:5 skip 1 with linespoints lw 2 pt 7 ps 0.5 title "--no-kv-cache", \
     "docs/img/kv-cost.csv" using 1:4 skip 1 with linespoints lw 2 pt 7 ps 0.5 title "with the KV cache"
