#!/bin/bash
# npm run fuzz -- MINUTES [typescript|native|differential]...: every fuzzer in turn, for MINUTES together.
#   typescript    parsers in TypeScript (test/fuzz/parsers.ts)
#   native        parsers in C++, with libFuzzer, ASan and UBSan (native/test/fuzz)
#   differential  archives, read by us and by Go, GNU tar and libarchive (test/fuzz/differential)
# What is found is kept in build/fuzz, and ends in status 1.
set -euo pipefail
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$repo"

minutes=${1:-}
if ! [[ $minutes =~ ^[0-9]+$ ]]; then
	echo "usage: npm run fuzz -- MINUTES [typescript|native|differential]..." >&2
	exit 2
fi
shift
parts=("$@")
[ "${#parts[@]}" != 0 ] || parts=(typescript native differential)
missing=''
for pair in clang++-19:clang-19 ninja:ninja-build cmake:cmake go:golang-go bsdtar:libarchive-tools zstd:zstd; do
	command -v "${pair%:*}" >/dev/null || missing+=" ${pair#*:}"
done
if [ -n "$missing" ]; then
	echo "fuzz: these Debian packages are missing:$missing" >&2
	exit 1
fi

mkdir -p build/fuzz
seconds=$((minutes * 60 / ${#parts[@]}))
status=0

typescript() { node dist/test/fuzz/main.js "$seconds" || status=1; }

differential() { node dist/test/fuzz/differential/main.js "$seconds" "$RANDOM$RANDOM" || status=1; }

native() {
	local fuzzer=build/fuzz/native/kfd_fuzz targets target corpus each
	CXX=clang++-19 cmake -S native -B build/fuzz/native -G Ninja -DKFD_FUZZ=ON -DCMAKE_BUILD_TYPE=Debug >/dev/null
	cmake --build build/fuzz/native --target kfd_fuzz
	mapfile -t targets < <("$fuzzer" --list)
	each=$((seconds / ${#targets[@]}))
	for target in "${targets[@]}"; do
		corpus=build/fuzz/corpus/$target
		mkdir -p "$corpus"
		export KFD_FUZZ_TARGET=$target
		"$fuzzer" --seeds "$corpus"
		# Former findings and other inputs that are worth keeping.
		if [ -d "test/fixtures/corpus/$target" ]; then cp "test/fixtures/corpus/$target"/* "$corpus/"; fi
		if "$fuzzer" -max_total_time="$each" -timeout=60 -rss_limit_mb=2048 -max_len=65536 \
			-artifact_prefix="build/fuzz/$target-" "$corpus" >"build/fuzz/$target.log" 2>&1; then
			echo "$target: $(grep -c . < <(ls "$corpus")) inputs kept, no finding; $(tail -n 1 "build/fuzz/$target.log")"
		else
			status=1
			echo "$target: a finding in build/fuzz; the end of build/fuzz/$target.log:"
			grep -E 'ERROR|error:|what\(\)|SUMMARY|artifact|Test unit' "build/fuzz/$target.log" | head -n 8 || true
		fi
	done
}

npm run --silent build:ts
for part in "${parts[@]}"; do
	case $part in
	typescript | native | differential) "$part" ;;
	*)
		echo "fuzz: there is no \"$part\"" >&2
		exit 2
		;;
	esac
done
exit "$status"
