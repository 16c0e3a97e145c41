#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stands in for ssh. usage: host_shell.sh HOST SCRIPT
# Runs the script on this machine. Where the system allows it, the host has that name for the script.
if unshare --uts true 2>/dev/null; then
  exec unshare --uts sh -c 'hostname "$1"; exec sh -c "$2"' sh "$1" "$2"
fi
exec sh -c "$2"
