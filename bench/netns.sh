#!/usr/bin/env bash
# Runs a program on ranks of several pretended hosts: network namespaces with names of their own, a switch between
# them, and links of a given rate. What goes from host to host goes through MPI over TCP, as in a cluster with a slow
# network. Needs root, ip, tc and mpirun. Whatever happens, it ends in time and takes away what it made.
#   bench/netns.sh [-h HOSTS] [-n RANKS_A_HOST] [-r RATE] [-b BURST] [-t SECONDS] PROGRAM [ARGUMENTS]
# RATE is as tc writes it (1gbit, 100mbit), or "none" for no limit. BURST bytes pass before the limit is felt: with
# much more than these 16 KiB short messages would never feel it, with fewer the kernel here falls short of 1 Gbit/s.
#   bench/netns.sh -h 3 -r 100mbit -b 4kb build/bin/mutirao bench --collectives
set -eu
hosts=2 ranks=1 rate=1gbit burst=16kb seconds=120
while getopts h:n:r:b:t: option; do
  case $option in
    h) hosts=$OPTARG ;;
    n) ranks=$OPTARG ;;
    r) rate=$OPTARG ;;
    b) burst=$OPTARG ;;
    t) seconds=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
for tool in ip tc mpirun unshare; do
  command -v $tool >/dev/null || { echo "netns.sh: no $tool" >&2; exit 1; }
done

# "mt" and the process number: several of these may run at a time.
name=mt$$
work=$(mktemp -d)
clean() {
  for i in $(seq 0 "$hosts"); do
    ip netns pids "$name-$i" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
    ip netns del "$name-$i" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

# Host 0 is the switch.
limit() { # namespace, device
  [ "$rate" = none ] || ip netns exec "$1" tc qdisc add dev "$2" root tbf rate "$rate" burst "$burst" latency 200ms
}
ip netns add "$name-0"
ip -n "$name-0" link add switch type bridge
ip -n "$name-0" link set switch up
list=
for i in $(seq "$hosts"); do
  ip netns add "$name-$i"
  ip -n "$name-$i" link add eth0 type veth peer name "port$i" netns "$name-0"
  ip -n "$name-$i" addr add "10.77.0.$i/24" dev eth0
  ip -n "$name-$i" link set lo up
  ip -n "$name-$i" link set eth0 up
  ip -n "$name-0" link set "port$i" master switch up
  limit "$name-$i" eth0
  limit "$name-0" "port$i"
  list=$list${list:+,}$name-$i:$ranks
done

# What mpirun takes for ssh: agent HOST COMMAND...
cat >"$work/agent" <<'AGENT'
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$0"; exec sh -c "$*"' "$host" "$@"
AGENT
chmod +x "$work/agent"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_execute_quiet=1
unset OMPI_MCA_plm
# All hosts, and the kernel's part of their network, share the cores here: MPI yields while it waits.
timeout -k 5 "$seconds" ip netns exec "$name-1" unshare --uts sh -c 'hostname "$0"; exec "$@"' "$name-1" \
  mpirun --mca plm rsh --mca plm_rsh_agent "$work/agent" --mca plm_rsh_no_tree_spawn 1 --mca btl self,vader,tcp \
  --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --mca mpi_yield_when_idle 1 \
  --bind-to none --oversubscribe --host "$list" -n $((hosts * ranks)) "$@"
