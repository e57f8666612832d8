#!/bin/bash
# npm run bench [-- SECTION...]: sets up, measures in a guest, writes build/bench/results.json and prints tables.
# Sections: table, hidden, freeze, processes, memory, plain, containerd (these by default), spare, migrate, upstream.
# Figures are those of a simulated GPU in an emulated machine: compare them only with each other. The driver is kfdsim,
# because its time model is finer. The guest has 19 GiB, enough for eight processes and their image. "plain" has its
# own guest with a clock that counts instructions. It measures differences of a few milliseconds, which are otherwise
# lost in noise.
# "migrate" has two guests with the real driver and a network of BENCH_MBIT (40) Mbit/s between them. It takes
# BENCH_ROUNDS (5) of each way, with BENCH_MIB (1024) MiB of contents.
# "upstream" compares with upstream's plugin and fetches nothing: BENCH_CRIU names the folder of a built CRIU, whose
# criu/criu and plugins/amdgpu/amdgpu_plugin.so run on Debian 13. It takes BENCH_ROUNDS (5) of each, without contents,
# with BENCH_BUFFERS (1000) BOs of 64 KiB, and with one BO of each of BENCH_SIZES ("150 1024") MiB. With BENCH_SPARE=yes
# ours has a spare session.
# "native [DIR]" alone needs neither guest nor root. It measures the content pipeline over a modelled link and files in
# DIR (/tmp by default). Its results are build/bench/native.json and native.svg.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1-}" = native ]; then
	npm run --silent build
	exec node dist/test/bench/native.js "${@:2}"
fi
if [[ " $* " = *" upstream "* ]]; then
	for file in criu/criu plugins/amdgpu/amdgpu_plugin.so; do
		if [ ! -f "${BENCH_CRIU-}/$file" ]; then
			echo "bench: upstream: BENCH_CRIU=\"${BENCH_CRIU-}\" names no folder with $file: build CRIU" \
				"(make criu amdgpu_plugin) and name its folder" >&2
			exit 2
		fi
	done
fi
test/lab/setup.sh
packaging/stage.sh
mkdir -p build/bench
rm -f build/bench/results.json
[ $# -gt 0 ] || set -- table hidden freeze processes memory plain containerd
counted= moved= rivals= timed=()
for section in "$@"; do
	case $section in
	plain) counted=1 ;;
	migrate) moved=1 ;;
	upstream) rivals=1 ;;
	*) timed+=("$section") ;;
	esac
done
lab=(test/lab/lab.sh --driver kfdsim --timeout 7200 --share build/bench)
bench=(node dist/test/bench/main.js)
# Upstream's plugin copies one byte more than a BO has (strict_last_byte).
against_upstream() {
	mkdir -p build/bench/upstream
	cp "$BENCH_CRIU"/criu/criu "$BENCH_CRIU"/plugins/amdgpu/amdgpu_plugin.so build/bench/upstream/
	"${lab[@]}" --modules strict_last_byte=no -- env BENCH_ROUNDS="${BENCH_ROUNDS:-5}" \
		BENCH_BUFFERS="${BENCH_BUFFERS:-1000}" BENCH_SIZES="${BENCH_SIZES-150 1024}" \
		BENCH_SPARE="${BENCH_SPARE-}" "${bench[@]}" upstream
}
[ ${#timed[@]} -eq 0 ] || "${lab[@]}" --memory 19456 -- "${bench[@]}" "${timed[@]}"
[ -z "$counted" ] || "${lab[@]}" --icount -- "${bench[@]}" plain
[ -z "$moved" ] || test/lab/pair.sh --memory 7168 --timeout 14400 --share build/bench --rate "${BENCH_MBIT:=40}" \
	--b modules=first_slot=5 -- env BENCH_MBIT="$BENCH_MBIT" BENCH_ROUNDS="${BENCH_ROUNDS:-5}" \
	BENCH_MIB="${BENCH_MIB:-1024}" "${bench[@]}" migrate
[ -z "$rivals" ] || against_upstream
