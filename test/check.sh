#!/bin/bash
# npm run check: compilers, linters, formats, unit tests, hostile inputs, the bundled programs on each release of
# Node.js, and the native tests also under ASan and UBSan. It needs neither root nor a guest, and takes some ten
# minutes when built, on two processors. It prints one line for each part; the last line has the totals. Logs are kept
# in build/test-logs. test/run.sh sources this file for the same parts.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

# missing_packages: prints the Debian packages that are needed here and not installed. It looks for commands and
# headers, because other distributions name packages differently.
missing_packages() {
	local pair
	for pair in cmake:cmake ninja:ninja-build g++:g++ pkg-config:pkg-config clang-format:clang-format; do
		command -v "${pair%:*}" >/dev/null || echo "${pair#*:}"
	done
	command -v g++ >/dev/null && command -v pkg-config >/dev/null || return 0
	for pair in libdrm_amdgpu:libdrm-dev libzstd:libzstd-dev liblz4:liblz4-dev libxxhash:libxxhash-dev; do
		pkg-config --exists "${pair%:*}" || echo "${pair#*:}"
	done
	echo '#include <doctest/doctest.h>' | g++ -x c++ -fsyntax-only - 2>/dev/null || echo doctest-dev
}

cxx_sources() { find native test/lab/programs test/fixtures -name '*.cc' -o -name '*.h' | LC_ALL=C sort; }

formats() {
	local files
	mapfile -t files < <(cxx_sources)
	clang-format --dry-run --Werror "${files[@]}"
}

# Parses every script of the repository with the shell of its first line. A sourced one is parsed as sh, unless it says
# "shellcheck shell=bash".
shell_syntax() {
	local file shell first status=0
	while read -r file; do
		read -r first <"$file"
		case $first in
		'#!/bin/bash'*) shell=bash ;;
		'#!/bin/sh'*) shell=sh ;;
		*)
			[[ $file == *.sh ]] || continue
			shell=sh
			if grep -q '^# shellcheck shell=bash' "$file"; then shell=bash; fi
			;;
		esac
		"$shell" -n "$file" || status=1
	done < <(find .ci deploy examples hooks libexec native packaging shim test -type f \
		\( -name '*.sh' -o ! -name '*.*' \) | LC_ALL=C sort)
	return "$status"
}

# Runs only tests that still have a source: tsc leaves the output of removed tests in dist.
unit_tests() {
	local source tests=()
	for source in test/unit/*.test.ts; do tests+=("dist/${source%.ts}.js"); done
	# Runs as many files at once as there are processors. The native parts beside them often wait and leave one free.
	node --test --test-concurrency="$(nproc)" --test-reporter=tap "${tests[@]}"
}

# Real programs with hostile input, as many at once as there are processors.
hostile_inputs() { node --test-reporter=tap dist/test/hostile/main.js; }

# The programs of an installation on Node.js 20, 22 and 24. packaging/node.sh fetches those releases.
bundled_programs() { node --test --test-reporter=tap dist/test/installation/bundle.test.js; }

sanitized_build() { native/build.sh build/sanitize -DKFD_SANITIZE=ON -DCMAKE_BUILD_TYPE=Debug; }

# Compilers, linters, formats, and the tests that take little time for what they find.
plain_parts() {
	compiled=no
	if suite typescript one npm run --silent build:ts; then compiled=yes; fi
	compiled_suite unit tap unit_tests
	suite lint one node_modules/.bin/biome check
	suite modules one node_modules/.bin/depcruise --config .dependency-cruiser.cjs src shim hooks
	suite clang-format one formats
	suite shell-syntax one shell_syntax
	if [ "$native_built" = yes ]; then
		suite native doctest build/native/core_test
	else
		not_run native "it could not be built"
	fi
}

# Hundreds of processes. After plain_parts.
hostile_parts() {
	compiled_suite hostile tap hostile_inputs
	compiled_suite bundle tap bundled_programs
}

# compiled_suite: a suite that needs the compiled sources and the addon.
compiled_suite() {
	if [ "$compiled" = no ]; then
		not_run "$1" "what it tests could not be compiled"
	elif [ "$native_built" = no ]; then
		not_run "$1" "the addon could not be built"
	else
		suite "$@"
	fi
}

# These run beside the sanitized parts. Each side needs one processor most of the time.
plain_and_hostile_parts() {
	plain_parts
	hostile_parts
}

sanitized_parts() {
	if suite sanitized-build one sanitized_build; then
		suite native-sanitized doctest build/sanitize/core_test
	else
		not_run native-sanitized "it could not be built"
	fi
}

# Runs before the functions above, and sets native_built for them.
native_build() {
	native_built=no
	if suite native-build one npm run --silent build:native; then native_built=yes; fi
}

[ "${BASH_SOURCE[0]}" = "$0" ] || return 0

missing=$(missing_packages | paste -sd' ')
if [ -n "$missing" ]; then
	echo "check: these Debian packages are missing: $missing (npm run setup, as root, installs what is needed)" >&2
	exit 1
fi
if [ ! -x "$REPO/node_modules/.bin/tsc" ]; then
	echo "check: node_modules is missing or not complete: run npm ci" >&2
	exit 1
fi
forget_logs
native_build
side_by_side sanitized_parts plain_and_hostile_parts
totals
