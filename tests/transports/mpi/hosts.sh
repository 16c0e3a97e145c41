#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: hosts.sh LIBRARY PROGRAM ARGUMENT...
# Runs a program with two ranks on each of two hosts, which are network namespaces of this machine.
# Exit status 77 if the machine does not allow them.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/hosts.sh"

place=$(mktemp -d)
clean_up() {
  hosts_take_down
  rm -rf "$place"
}
trap clean_up EXIT
hosts_begin "$place" 2
if [ "$(id -u)" -ne 0 ] || ! command -v ip >/dev/null || ! hosts_put_up 1 "0 2 0" "1 2 0" 2>"$place/why"; then
  echo "hosts.sh: no network namespaces, expected root, iproute2 and a kernel that allows them"
  cat "$place/why" 2>/dev/null || true
  exit 77
fi
library=$1
shift
hosts_limit=280
hosts_run "$library" 2 "$@"
