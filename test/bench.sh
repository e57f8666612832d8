#!/bin/bash
# npm run bench [-- SECTION...]: sets up, measures in a guest, writes build/bench/results.json and prints tables.
# Sections: table, hidden, freeze, processes, memory, plain, containerd (all by default). Figures are those of a
# simulated GPU in an emulated
# machine: compare them only with each other. The driver is kfdsim, whose time model is the finer one. The guest has
# 19 GiB, for eight processes and their image. "plain" has one of its own,
# whose clock counts instructions: a few milliseconds more or less are lost in what else the host does.
# "native [DIR]" alone needs neither guest nor root: the content pipeline over a modelled link and files in DIR (/tmp
# by default);
# results go to build/bench/native.json and native.svg.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1-}" = native ]; then
	npm run --silent build
	exec node dist/test/bench/native.js "${@:2}"
fi
test/lab/setup.sh
packaging/stage.sh
mkdir -p build/bench
rm -f build/bench/results.json
[ $# -gt 0 ] || set -- table hidden freeze processes memory plain containerd
counted= timed=()
for section in "$@"; do
	if [ "$section" = plain ]; then counted=1; else timed+=("$section"); fi
done
[ ${#timed[@]} -eq 0 ] || test/lab/lab.sh --driver kfdsim --memory 19456 --timeout 7200 --share build/bench -- node dist/test/bench/main.js "${timed[@]}"
[ -z "$counted" ] || test/lab/lab.sh --driver kfdsim --icount --timeout 7200 --share build/bench -- node dist/test/bench/main.js plain
