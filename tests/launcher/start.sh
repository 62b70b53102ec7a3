#!/usr/bin/env bash
# What the launcher starts, in which environment, with which standard input.
source "$(dirname "${BASH_SOURCE[0]}")/box.bash"

# One rank: no mpirun, nothing to inherit.
launch -- generate -n 1 -p hi --seed 5 -v
args_are rank generate --ranks=1 --prompt=hi --seed=5 --verbose
launch -- tokenize
args_are rank tokenize
stdin_is rank typed
launch -- inspect -n 8
args_are rank inspect --ranks=8

# Several: mpirun, which does not get what was typed unless the command reads it.
launch -- generate -n 2 -p 'two words' --stop '$x "*'
args_are mpirun --bind-to none -n 2 "$box/mutirao-rank" generate --ranks=2 '--prompt=two words' '--stop=$x "*'
stdin_is mpirun ''
env_has mpirun OMPI_MCA_rmaps_base_oversubscribe=1
env_has mpirun OMPI_MCA_orte_execute_quiet=1
env_lacks mpirun OMPI_MCA_plm
if [ "$(id -u)" -eq 0 ]; then
  env_has mpirun OMPI_ALLOW_RUN_AS_ROOT=1
  env_has mpirun OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
else
  env_lacks mpirun OMPI_ALLOW_RUN_AS_ROOT
fi
launch -- chat -n 2
stdin_is mpirun typed
launch -- generate -n 2 --prompt-file -
stdin_is mpirun typed
launch -- bench -n 1 --via mpirun
args_are mpirun --bind-to none -n 1 "$box/mutirao-rank" bench --ranks=1

# One rank for each NUMA domain, as mutirao-rank tells.
launch PMI_FD=3 -- bench
args_are mpirun --bind-to none -n 3 "$box/mutirao-rank" bench
echo '{"numa_domains": 1}' >"$box/describe.json"
launch -- bench
args_are rank bench
env_lacks describe PMI_
launch DESCRIBE_STATUS=1 -- bench
refused 1 '--describe failed'
echo '{}' >"$box/describe.json"
launch -- bench
refused 3 numa_domains
echo '{' >"$box/describe.json"
launch -- bench
refused 3 'mutirao-rank --describe'

# Without ssh (Open MPI asks for it even for one host); what the user set stays.
launch PATH="$box/bin2" -- bench -n 2
refused 1 'mpirun is not in PATH'
mkdir "$box/bin3" && cp -P "$box/empty/"* "$box/bin3/" && cp "$box/bin/mpirun" "$box/bin3/"
launch PATH="$box/bin3" -- bench -n 2
env_has mpirun OMPI_MCA_plm=isolated
launch PATH="$box/bin3" SLURM_JOB_ID=7 -- bench -n 2
env_lacks mpirun OMPI_MCA_plm
launch OMPI_MCA_btl_tcp_if_include=eth1 OMPI_MCA_orte_execute_quiet=0 -- bench -n 2
env_has mpirun OMPI_MCA_btl_tcp_if_include=eth1

# Hosts.
echo 'node01 slots=2' >"$box/hosts"
launch -- bench --hostfile "$box/hosts"
args_are mpirun --bind-to none --hostfile "$box/hosts" "$box/mutirao-rank" bench
env_lacks mpirun OMPI_MCA_orte_execute_quiet
env_lacks mpirun OMPI_MCA_plm
launch -- bench --hostfile "$box/hosts" -n 1
args_are mpirun --bind-to none --hostfile "$box/hosts" -n 1 "$box/mutirao-rank" bench --ranks=1
launch -- bench --hostfile "$box/none"
refused 3 "$box/none"
launch -- bench --hostfile "$box/hosts" --via srun
refused 2 'allocation'

# Slurm.
launch SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=4 -- bench -n 4 --via srun
args_are srun --mpi=pmix --cpu-bind=none --kill-on-bad-exit=1 --quiet --unbuffered --input=none -n 4 \
  "$box/mutirao-rank" bench --ranks=4
env_has srun SLURM_JOB_ID=7
env_lacks srun SLURM_PROCID
launch SLURM_JOB_ID=7 -- chat --via srun
args_are srun --mpi=pmix --cpu-bind=none --kill-on-bad-exit=1 --quiet --unbuffered --input=0 \
  "$box/mutirao-rank" chat
stdin_is srun typed
launch SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=4 -- bench -n 4
refused 2 '--mpi=pmix'
launch SLURM_JOB_ID=7 SLURM_STEP_ID=4294967291 SLURM_PROCID=0 SLURM_NTASKS=4 -- bench -n 4
args_are mpirun --bind-to none -n 4 "$box/mutirao-rank" bench --ranks=4

# Under mpirun: the rank itself.
launch PMIX_RANK=0 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 -- bench
args_are rank bench
env_has rank PMIX_RANK=0
launch PMIX_RANK=3 OMPI_COMM_WORLD_SIZE=4 -- bench -n 4
args_are rank bench --ranks=4
launch PMI_RANK=0 PMI_SIZE=4 -- bench -n 2
refused 2 '-n 2, but mpirun or srun started 4 ranks'
launch PMIX_RANK=0 -- bench --hostfile "$box/hosts"
refused 2 'this is a rank already'
# Of several ranks one speaks, and one does what needs no ranks.
launch PMI_RANK=1 PMI_SIZE=4 -- bench -n 2
checks=$((checks + 1))
[ "$status" -eq 2 ] && [ -z "$err" ] || fail "rank 1: status $status, said '$err'"
launch PMIX_RANK=0 PMIX_NAMESPACE=x OMPI_COMM_WORLD_RANK=0 OMPI_MCA_ess=y -- inspect
args_are rank inspect
for v in PMIX_ OMPI_COMM_WORLD_ OMPI_MCA_ess; do env_lacks rank $v; done
launch PMIX_RANK=1 -- inspect
checks=$((checks + 1))
[ "$status" -eq 0 ] && [ ! -e "$box/rank.args" ] || fail "rank 1 did what rank 0 does"

# Exit statuses come back.
for s in 0 1 2 3; do
  for n in 1 2; do
    launch RANK_STATUS=$s -- bench -n $n
    checks=$((checks + 1))
    [ "$status" -eq "$s" ] || fail "status $s of $n rank(s) came back as $status"
  done
done

# Wrong usage ends here.
launch -- bench --frobnicate
refused 2 '--frobnicate'
launch -- serve --port 80
refused 2 "'serve' is not in this version"
launch --
refused 2 'a command is needed'
mv "$box/mutirao-rank" "$box/hidden"
launch -- bench -n 1
refused 1 "$box/mutirao-rank"

echo "$checks checks, $failures failed"
[ "$failures" -eq 0 ] && [ "$checks" -ge 60 ]
