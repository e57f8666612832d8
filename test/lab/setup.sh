#!/bin/bash
# npm run setup: makes a fresh Debian 12 or 13 machine (root, Node >= 20, npm) ready to build, test and run the lab.
# What is there already is left alone, so running it again costs seconds. One line a step, on stderr.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$LAB/parts.sh"

# Only what is missing; the package lists are fetched only then.
host_packages() {
	local missing name names
	names=$(packages "$LAB/host-packages.list")
	missing=$(for name in $names; do
		dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || echo "$name"
	done)
	[ -n "$missing" ] || return 0
	export DEBIAN_FRONTEND=noninteractive
	step "package lists" apt-get update
	# shellcheck disable=SC2086 # a list of names
	step "Debian packages" apt-get install -y --no-install-recommends $missing
}

node_modules() {
	[ "$REPO/node_modules/.package-lock.json" -nt "$REPO/package-lock.json" ] && return 0
	step "npm packages" npm ci --no-audit --no-fund
	touch "$REPO/node_modules/.package-lock.json"
}

[ "$(id -u)" = 0 ] || die "setup must run as root"
cd "$REPO"
mkdir -p "$CACHE"
exec 8>"$CACHE/setup.lock"
flock 8
host_packages
node_modules
step "build" npm run build
for major in 22 24; do build_node "$major"; done # for npm run check and for packages
build_emulator
build_guest
build_driver
build_kfdsim
build_programs
prune_cache
