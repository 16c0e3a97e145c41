# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced: hosts of a network on one machine, for programs of an MPI library. Each host is a network namespace with a host
# name of its own; bridges in one more namespace join them. Needs root, iproute2 and a kernel that allows it.

hosts_prefix=blink$$
hosts_count=0
hosts_place=  # a folder of its own

# hosts_space NODE: the namespace of a host, or of a bridge.
hosts_space() {
  if [ "$1" -lt "$hosts_count" ]; then echo "$hosts_prefix-h$1"; else echo "$hosts_prefix-fabric"; fi
}
hosts_spaces() {
  local host
  for ((host = 0; host < hosts_count; ++host)); do echo "$hosts_prefix-h$host"; done
  echo "$hosts_prefix-fabric"
}

# hosts_begin FOLDER COUNT: what follows is about so many hosts.
hosts_begin() {
  hosts_place=$(realpath "$1")
  hosts_count=$2
}
# hosts_put_up BRIDGES LINK...: nodes below the number of hosts are hosts, the others bridges. A link: both ends, and its rate in
# Mbit/s in each direction; 0: as fast as it goes.
hosts_put_up() {
  local bridges=$1 space link from to rate bridge end near far
  shift
  for space in $(hosts_spaces); do
    ip netns add "$space" || return
    ip -n "$space" link set lo up || return
  done
  for ((bridge = hosts_count; bridge < hosts_count + bridges; ++bridge)); do
    ip -n "$hosts_prefix-fabric" link add "b$bridge" type bridge || return
    ip -n "$hosts_prefix-fabric" link set "b$bridge" up || return
  done
  for link in "$@"; do
    read -r from to rate <<<"$link"
    ip -n "$(hosts_space "$from")" link add "l$from-$to" type veth \
      peer name "l$to-$from" netns "$(hosts_space "$to")" || return
    for end in "$from $to" "$to $from"; do
      near=${end% *} far=${end#* }
      space=$(hosts_space "$near")
      ip -n "$space" link set "l$near-$far" up || return
      [ "$rate" -eq 0 ] || tc -n "$space" qdisc add dev "l$near-$far" root \
        tbf rate "${rate}mbit" burst 64kb limit 4mb || return
      if [ "$near" -lt "$hosts_count" ]; then
        ip -n "$space" addr add "10.77.0.$((near + 1))/24" dev "l$near-$far" || return
      else
        ip -n "$space" link set "l$near-$far" master "b$near" || return
      fi
    done
  done
  # How launchers reach a host: options of ssh, its name, the command.
  cat >"$hosts_place/agent" <<'TXT'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$0"; exec sh -c "$1"' "$host" "$*"
TXT
  chmod +x "$hosts_place/agent"
}
hosts_take_down() {
  local space
  for space in $(hosts_spaces); do ip netns del "$space" 2>/dev/null || true; done
}

# hosts_run LIBRARY EACH COMMAND...: so many ranks on each host, numbered host by host (openmpi), or one host after the other
# (mpich), started on host 0. Ended after hosts_limit seconds.
hosts_limit=600
hosts_run() {
  local library=$1 each=$2 ranks=$(($2 * hosts_count)) list="" slots="" host launch
  shift 2
  for ((host = 0; host < hosts_count; ++host)); do
    list+=${list:+,}$hosts_prefix-h$host
    slots+=${slots:+,}$hosts_prefix-h$host:$each
  done
  case $library in
    openmpi) launch=(mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none
      --mca plm_rsh_agent "$hosts_place/agent" --host "$slots" -np "$ranks"
      --mca pml ob1 --mca btl "tcp,self" --mca btl_tcp_if_include 10.77.0.0/24
      --mca oob_tcp_if_include 10.77.0.0/24) ;;
    mpich) launch=(mpiexec.mpich -launcher ssh -launcher-exec "$hosts_place/agent" -hosts "$list"
      -n "$ranks" -localhost 10.77.0.1 -genv UCX_TLS "tcp,self") ;;
    *) echo "hosts_run: expected openmpi or mpich, not $library" >&2; return 2 ;;
  esac
  timeout "$hosts_limit" ip netns exec "$hosts_prefix-h0" unshare --uts sh -c 'hostname "$0"; exec "$@"' \
    "$hosts_prefix-h0" "${launch[@]}" "$@"
}
