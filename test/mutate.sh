#!/bin/bash
# npm run mutate -- PLACE...: what the unit tests notice of faults put into PLACE (test/mutate/main.ts); PLACE native:
# what the native tests notice of guards taken away (test/mutate/native.ts). A mutant of PLACE may do anything. So as
# root it runs where only build/mutate can be written, and only its own processes are seen. Sessions of tests find an
# empty /tmp, /run and /var/log.
set -euo pipefail
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$repo"

npm run --silent build:ts
if [ "${1:-}" = native ]; then exec node --no-warnings dist/test/mutate/native.js "${@:2}"; fi
main=(node --no-warnings dist/test/mutate/main.js "$@")
if [ "$(id -u)" != 0 ]; then exec "${main[@]}"; fi
mkdir -p build/mutate
# shellcheck disable=SC2016
exec unshare --mount --pid --fork --kill-child --mount-proc --propagation private sh -euc '
	mount --bind build/mutate build/mutate
	mount -o remount,bind,ro /
	mount -t tmpfs tmpfs /tmp
	mount -t tmpfs tmpfs /run
	mount -t tmpfs tmpfs /var/log
	cd "$PWD"
	# The first process of a pid namespace gets the orphans of all others. A shell reaps them, Node.js does not.
	"$@"
	exit
' sh "${main[@]}"
