#!/usr/bin/env bash
# A small cluster on one machine: network namespaces as hosts, one virtual cable each to a switch, every cable at a
# rate of one's choice in both directions. Real TCP and real MPI, without a second machine.
#
#   netns.sh up N RATE          make N hosts; RATE as in 1gbit, 100mbit, or none (as fast as the machine can)
#   netns.sh run -n N APP ...   mpirun: N ranks, as evenly over the hosts as they go. Options of mpirun may precede APP
#   netns.sh exec K CMD ...     CMD on host K (1 ... N)
#   netns.sh all CMD ...        CMD on every host, with RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; the
#                               first that fails ends the others, and its status is ours
#   netns.sh rate RATE [K]      another rate, of host K's cable or of all, while things run
#   netns.sh cable K out|in     pulls host K's cable out of the switch, or puts it in again, while things run
#   netns.sh counters           bytes that each host has sent so far, one number a line
#   netns.sh status             hosts and rates
#   netns.sh down               ends what runs on the hosts and removes them; repeating it does no harm
#
# Hosts are $LACONIC_NET-1, -2, ... (LACONIC_NET: lacnet unless set; two names are two clusters side by side), with the
# addresses 10.41.0.1, .2, ... that nothing outside can see: no route leads out of the namespaces or in.
# Needs root, iproute2 and a kernel with veth, bridge and sch_tbf. What is missing is said, with exit status 77 (a test
# that is skipped); other errors end with 1.
#
# Reading times taken here:
#  - After a pause a cable lets its bucket pass at full speed: what 1.2 ms of its rate take, 10 kB at least, since a step
#    pauses too (LACONIC_NET_BURST=150kb sets another one). Time many steps in a row.
#  - The hosts share the machine's cores. One thread a rank (--threads 1) where ranks are as many as cores or more.
#  - TCP's congestion control is cubic or, where hosts may not choose it, reno (LACONIC_NET_CONTROL names others). BBR,
#    some machines' own, lets every connection nearly rest for 200 ms every 10 s, and with it the whole ring.
#  - mpirun may use TCP on these cables only: the ranks would otherwise find shared memory, and no rate would apply.
set -uo pipefail

NET=${LACONIC_NET:-lacnet}
PREFIX=10.41.0
CONTROL=${LACONIC_NET_CONTROL:-cubic reno}
SWITCH=$NET-switch
AGENT=/run/$NET-agent

fail() { echo "netns: $*" >&2; exit 1; }
lacking() { echo "netns: skipped: $*" >&2; exit 77; }

# The numbers of the hosts that are up, in order.
numbers() { ip netns list 2>/dev/null | sed -n "s/^$NET-\([0-9][0-9]*\)\( .*\)\{0,1\}$/\1/p" | sort -n; }
namespaces() { ip netns list 2>/dev/null | sed -n "s/^\($NET-[0-9][0-9]*\|$SWITCH\)\( .*\)\{0,1\}$/\1/p"; }
require_up() { [ -n "$(numbers)" ] || fail "no cluster is up: netns.sh up N RATE"; }

# in_host NAMESPACE CMD...: becomes CMD there, with a host name of its own (Open MPI tells hosts apart by it).
in_host() {
  local host=$1; shift
  exec ip netns exec "$host" unshare --uts bash -c \
    'echo "$1" > /proc/sys/kernel/hostname; shift; exec "$@"' - "$host" "$@"
}

# What `laconic launch` sets for ranks on one machine, and what keeps the traffic on the cables.
clean_environment() {  # number of ranks
  local name cores
  for name in $(compgen -e); do
    case $name in OPENBLAS_* | OMP_* | OMPI_* | PMIX_*) unset "$name" ;; esac
  done
  cores=$(nproc)
  export OMP_NUM_THREADS=$((cores > $1 ? cores / $1 : 1)) LACONIC_COLUMNS=0
  [ ! -t 1 ] || LACONIC_COLUMNS=${COLUMNS:-80}
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_orte_execute_quiet=1   # Open MPI 4 need not explain our errors
  export OMPI_MCA_mpi_yield_when_idle=1  # a rank that waits must not hold the core of the rank it waits for
  export OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self OMPI_MCA_osc=^ucx
  export OMPI_MCA_btl_tcp_if_include=$PREFIX.0/24 OMPI_MCA_oob_tcp_if_include=$PREFIX.0/24
}

bucket() {  # rate: the bytes of its bucket
  awk -v rate="$1" 'BEGIN {
    bits = rate + 0
    if (rate ~ /gbit$/) bits *= 1e9; else if (rate ~ /mbit$/) bits *= 1e6; else if (rate ~ /kbit$/) bits *= 1e3
    bytes = bits / 8 * 1.2e-3
    printf "%.0f", (bytes > 10000 ? bytes : 10000) }'
}

shape() {  # namespace, device, rate
  if [ "$3" = none ]; then
    ip netns exec "$1" tc qdisc del dev "$2" root 2>/dev/null
    return 0
  fi
  ip netns exec "$1" tc qdisc replace dev "$2" root tbf rate "$3" burst "${LACONIC_NET_BURST:-$(bucket "$3")}" latency 50ms
}

rate() {
  local k
  require_up
  for k in ${2:-$(numbers)}; do
    shape "$NET-$k" eth0 "$1" && shape "$SWITCH" "port$k" "$1" || return 1
  done
}

cable() {  # host, out or in
  require_up
  numbers | grep -qx "$1" || fail "there is no host '$1' (netns.sh status)"
  case $2 in
  out) ip -n "$SWITCH" link set "port$1" down ;;
  in) ip -n "$SWITCH" link set "port$1" up ;;
  *) fail "a cable is out or in, not '$2'" ;;
  esac
}

up() {
  local n=$1 k control
  [[ $n =~ ^[1-9][0-9]?$ ]] || fail "the number of hosts is 1 to 99, not '$n'"
  down
  ip netns add "$SWITCH" 2>/dev/null || lacking "this machine does not allow network namespaces"
  trap down EXIT  # half a cluster is none
  ip -n "$SWITCH" link set lo up
  ip -n "$SWITCH" link add hub type bridge 2>/dev/null || lacking "the kernel has no bridges"
  ip -n "$SWITCH" addr add "$PREFIX.254/24" dev hub
  ip -n "$SWITCH" link set hub up
  for ((k = 1; k <= n; k++)); do
    ip netns add "$NET-$k" || fail "host $k could not be made"
    for control in $CONTROL; do
      ip netns exec "$NET-$k" sysctl -qw "net.ipv4.tcp_congestion_control=$control" 2>/dev/null && break
    done
    ip link add eth0 netns "$NET-$k" type veth peer name "port$k" netns "$SWITCH" || lacking "the kernel has no veth"
    ip -n "$NET-$k" addr add "$PREFIX.$k/24" dev eth0
    ip -n "$NET-$k" link set lo up
    ip -n "$NET-$k" link set eth0 up
    ip -n "$SWITCH" link set "port$k" master hub up
  done
  rate "$2" || lacking "tc did not take the rate '$2' (a rate is 1gbit, 100mbit or none; the kernel needs sch_tbf)"
  cat > "$AGENT" <<AGENT
#!/bin/bash
# Stands in for ssh: AGENT ADDRESS COMMAND... runs the command line on that host.
address=\$1; shift
exec "$(realpath "$0")" on "$NET-\${address##*.}" bash -c "\$*"
AGENT
  chmod +x "$AGENT"
  trap - EXIT
}

pids() { local s; for s in $(namespaces); do ip netns pids "$s" 2>/dev/null; done | grep -vx "$$"; }

down() {
  local s signal
  for signal in TERM KILL; do
    s=$(pids) && [ -n "$s" ] && kill -"$signal" $s 2>/dev/null
    for _ in 1 2 3 4 5 6 7 8 9 10; do [ -z "$(pids)" ] && break; sleep 0.1; done
  done
  for s in $(namespaces); do ip netns del "$s"; done
  rm -f "$AGENT"
}

run() {
  local n k hosts slots list=
  [ "${1:-}" = -n ] && [[ ${2:-} =~ ^[1-9][0-9]*$ ]] && [ $# -ge 3 ] ||
    fail "as in: netns.sh run -n 4 build/apps/cifar10 --epochs 1"
  n=$2; shift 2
  require_up
  command -v mpirun >/dev/null || lacking "mpirun is missing (Debian: apt-get install openmpi-bin)"
  hosts=$(numbers | wc -l)
  slots=$(((n + hosts - 1) / hosts))
  for k in $(numbers | head -n "$n"); do list+=${list:+,}$PREFIX.$k:$slots; done
  clean_environment "$n"
  # Open MPI 5 has another launcher than 4, with settings of its own.
  local launcher=(--prtemca plm ssh --prtemca plm_ssh_agent "$AGENT")
  mpirun --version | grep -q 'Open MPI) 4' && launcher=(--mca plm rsh --mca plm_rsh_agent "$AGENT")
  # mpirun and its stand-in for ssh both set the process group; that the second comes too late is no news.
  in_host "$SWITCH" mpirun -n "$n" --bind-to none --map-by node --host "$list" \
    "${launcher[@]}" "$@" 2> >(grep --line-buffered -v 'Warning: setpgid' >&2)
}

all() {
  local k n status=0 code pid
  local -A running=()
  require_up
  n=$(numbers | wc -l)
  for k in $(numbers); do
    (
      export RANK=$((k - 1)) LOCAL_RANK=0 WORLD_SIZE=$n MASTER_ADDR=$PREFIX.1 MASTER_PORT=${LACONIC_NET_PORT:-29400}
      export GLOO_SOCKET_IFNAME=eth0
      in_host "$NET-$k" setsid -w "$@"
    ) &
    running[$!]=$k
  done
  end_all() { for k in $(numbers); do kill $(ip netns pids "$NET-$k" 2>/dev/null) 2>/dev/null; done; }
  trap 'end_all; exit 130' INT TERM
  while [ ${#running[@]} -gt 0 ]; do
    wait -n -p pid "${!running[@]}"; code=$?
    if [ $code -ne 0 ] && [ $status -eq 0 ]; then
      status=$code
      echo "netns: host ${running[$pid]} ended with status $code" >&2
      end_all
    fi
    unset "running[$pid]"
  done
  return $status
}

counters() {
  local k
  require_up
  for k in $(numbers); do ip netns exec "$NET-$k" cat /sys/class/net/eth0/statistics/tx_bytes; done
}

status() {
  local k
  for k in $(numbers); do
    echo "$NET-$k $PREFIX.$k $(ip netns exec "$NET-$k" tc qdisc show dev eth0 | head -n 1)," \
      "$(ip netns pids "$NET-$k" | wc -l) processes"
  done
}

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; }

command=${1:-help}
[ $# -gt 0 ] && shift
case $command:$# in
help:* | -h:* | --help:*) usage; exit 0 ;;
up:2 | cable:2 | rate:[12] | down:0 | counters:0 | status:0) ;;
run:[1-9]* | all:[1-9]*) ;;
exec:[2-9]* | exec:1[0-9]* | on:[2-9]* | on:1[0-9]*) ;;
*) usage >&2; fail "wrong arguments: $command $*" ;;
esac
[ "$(id -u)" = 0 ] || lacking "network namespaces need root"
for tool in ip tc unshare; do
  command -v $tool >/dev/null || lacking "$tool is missing (Debian: apt-get install iproute2 util-linux)"
done
case $command in
exec) numbers | grep -qx "$1" || fail "there is no host '$1' (netns.sh status)"
  host=$NET-$1; shift
  in_host "$host" "$@" ;;
on) in_host "$@" ;;
rate) rate "$@" || fail "tc did not take the rate '$1': a rate is 1gbit, 100mbit or none" ;;
*) "$command" "$@" ;;
esac
