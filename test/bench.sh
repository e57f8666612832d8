#!/bin/bash
# npm run bench [-- SECTION...]: sets up, measures in one guest, writes build/bench/results.json and prints tables.
# Sections: table, hidden, freeze, processes, memory, plain, containerd (all by default). Figures are those of a simulated GPU in an emulated
# machine: compare them only with each other. The guest has 19 GiB, for eight processes and their image.
# "native [DIR]" alone needs neither guest nor root: the content pipeline over a modelled link and files in DIR (/tmp by default);
# results go to build/bench/native.json and native.svg.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1-}" = native ]; then
	npm run --silent build
	exec node dist/test/bench/native.js "${@:2}"
fi
test/lab/setup.sh
test/lab/stage.sh
mkdir -p build/bench
test/lab/lab.sh --memory 19456 --timeout 7200 --share build/bench -- node dist/test/bench/main.js "$@"
