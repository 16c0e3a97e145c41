#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: partition.sh PROGRAM
# Runs the program as three ranks on three hosts, which are network namespaces of this machine, and cuts the link of the last
# one while they call. Exit status 77 if the machine does not allow them.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/hosts.sh"

place=$(mktemp -d)
clean_up() {
  hosts_take_down
  rm -rf "$place"
}
trap clean_up EXIT
hosts_begin "$place" 3
if [ "$(id -u)" -ne 0 ] || ! command -v ip >/dev/null || ! hosts_put_up 1 "0 3 0" "1 3 0" "2 3 0" 2>"$place/why"; then
  echo "partition.sh: no network namespaces, expected root, iproute2 and a kernel that allows them"
  cat "$place/why" 2>/dev/null || true
  exit 77
fi
mkdir "$place/job"
for host in 0 1 2; do
  timeout 100 ip netns exec "$(hosts_space "$host")" "$1" "$place" "$host" &
  ranks[host]=$!
done
for ((tenth = 0; tenth < 300; ++tenth)); do
  [ "$(find "$place" -maxdepth 1 -name 'runs.*' | wc -l)" -eq 3 ] && break
  sleep 0.1
done
sleep 0.5
ip -n "$(hosts_space 2)" link set l2-3 down
status=0
for rank in "${ranks[@]}"; do wait "$rank" || status=1; done
exit "$status"
