#!/bin/sh
# Builds the native parts into build/native: the addon, the CRIU plugin, the launcher, the native tests.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../build/native}
[ $# -eq 0 ] || shift
cmake -S "$here" -B "$out" -G Ninja "$@" >/dev/null
cmake --build "$out"
