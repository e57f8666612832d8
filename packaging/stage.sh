#!/bin/bash
# stage.sh: gathers what an installation consists of, from the built tree, into build/stage and build/stage.tar, laid
# out as it lies in /usr/lib/kfd-checkpoint. Fails, naming every missing part.
# stage.sh held: the same of the test build, whose processes can be held at points (test/faults), into build/stage-held.
set -euo pipefail
cd "$(dirname "$0")/.."
suffix=${1:+-$1}
stage=$PWD/build/stage$suffix native=build/native${1:+/$1} bundle=build/bundle$suffix
stages=${1:+dist/test/faults/stages/hold.js}

# Where each part is in the built tree, and where in the installation.
parts=(
	"$bundle ." # first: it is made below
	"libexec libexec" # before what is built for the same folder
	"packaging/system system"
	"hooks/criu-action hooks/criu-action"
	"shim/containerd-shim-kfd-v2 shim/containerd-shim-kfd-v2"
	"proto proto"
	"packaging/checkpointctl-kfd bin/checkpointctl-kfd"
	"$native/kfd_checkpoint.node lib/kfd_checkpoint.node"
	"$native/criu/kfd_checkpoint.so criu/kfd_checkpoint.so"
	"$native/kfd-checkpoint-launch libexec/kfd-checkpoint-launch"
	"build/native/kfd-checkpoint-selftest libexec/kfd-checkpoint-selftest"
)

missing=
for part in dist/src/{bundle,manual}/main.js "${parts[@]:1}"; do
	[ -e "${part% *}" ] || missing+=" ${part% *}"
done
if [ -n "$missing" ]; then
	echo "stage: not built:$missing (npm run build makes them)" >&2
	exit 1
fi
# Each time, so that bundles are never older than the output of tsc.
node dist/src/bundle/main.js "$bundle" ${stages:+"$stages"}

rm -rf "$stage" "$stage.tar"
mkdir -p "$stage"
for part in "${parts[@]}"; do
	from=${part% *} to=$stage/${part#* }
	mkdir -p "$(dirname "$to")"
	cp -a -T "$from" "$to"
done
for file in hooks/*; do # the TypeScript ones are in dist/hooks
	[[ $file == *.ts ]] || cp -a "$file" "$stage/hooks/"
done
# What packages install below /usr/share. The same sources make the same pages.
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH node dist/src/manual/main.js "$stage"
mkdir -p "$stage/share/doc/kfd-checkpoint/docs"
cp docs/*.md docs/*.svg "$stage/share/doc/kfd-checkpoint/docs/"
cp -a packaging/confinement "$stage/share/doc/kfd-checkpoint/"
mv "$stage/system/maintain" "$stage/libexec/"
chmod +x "$stage"/shim/* "$stage"/hooks/{criu-action,precreate}
# Names of functions of the native parts, which only a debugger reads.
[ -n "$suffix" ] || strip --strip-unneeded "$stage"/{lib/*.node,criu/*.so,libexec/kfd-checkpoint-*}

# One file: it travels to another host, or to a guest whose file share is slow with small ones.
tar -C "$stage" --owner=0 --group=0 -cf "$stage.tar.tmp" .
mv "$stage.tar.tmp" "$stage.tar"
