# Shared by the lab's scripts: where things are, and how a step is run and cached. Sourced, never run.
# shellcheck shell=bash

LAB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
REPO=$(cd "$LAB/../.." && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/kfd-checkpoint/lab
OUT=$REPO/build/lab

say() { printf 'lab: %s\n' "$*" >&2; }

die() {
	say "$*"
	exit 1
}

# packages LIST: the names in a package list, without comments.
packages() { sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$1"; }

# digest FILE|FOLDER...: one short name for a set of recipe files and folders.
digest() {
	local item
	for item in "$@"; do
		if [ -d "$item" ]; then
			(cd "$item" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
		else
			sha256sum <"$item"
		fi
	done | sha256sum | cut -c1-16
}

# step NAME COMMAND...: runs it with its output in a log; one line on stderr with the seconds it took,
# or the log's beginning and end when it fails (npm names the cause first, compilers last).
step() {
	local name=$1 log start=$EPOCHREALTIME
	shift
	log=$(mktemp "${TMPDIR:-/tmp}/kfd-checkpoint-step.XXXXXX")
	if "$@" >"$log" 2>&1; then
		rm -f "$log"
		say "$name: $(seconds_since "$start") s"
	else
		local status=$?
		say "$name FAILED (status $status) after $(seconds_since "$start") s; its log, shortened:"
		awk -v total="$(wc -l <"$log")" 'NR <= 12 || NR > total - 25; NR == 12 && total > 37 { print "..." }' "$log" |
			sed 's/^/    /' >&2
		rm -f "$log"
		return "$status"
	fi
}

# seconds_since EPOCHREALTIME: elapsed seconds with one decimal.
seconds_since() { LC_ALL=C awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'; }

# build_cached NAME DIR COMMAND...: makes DIR by running COMMAND with a temporary folder as last argument and
# renames that, so an interrupted build never leaves half a DIR behind.
build_cached() {
	local name=$1 dir=$2 temporary=$2.tmp.$$
	shift 2
	if [ ! -d "$dir" ]; then
		mkdir -p "$(dirname "$dir")"
		if ! step "$name" "$@" "$temporary"; then
			rm -rf "$temporary"
			return 1
		fi
		mv -T "$temporary" "$dir"
	fi
	touch "$dir" # keeps it from prune_cache; an unpacked package may have given it a time of long ago
}

# prune_cache: forgets what no lab has used for 30 days.
prune_cache() { find "$CACHE" -mindepth 1 -maxdepth 1 -type d -mtime +30 -exec rm -rf {} +; }

# one_guest_at_a_time: waits for the lock of guests; it is descriptor 9 then.
one_guest_at_a_time() {
	exec 9>"$CACHE/guest.lock"
	flock -n 9 && return
	say "waiting for another guest to end"
	flock 9
}
