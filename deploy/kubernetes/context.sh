#!/bin/bash
# context.sh: gathers what the image of the DaemonSet is made of, from build/packages, into build/kubernetes.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=build/kubernetes
archives=(build/packages/kfd-checkpoint-*.tar.zst) nodes=(build/packages/kfd-checkpoint-node_*.deb)
for file in "${archives[0]}" "${nodes[0]}"; do
	[ -f "$file" ] || {
		echo "context: $file is missing: npm run package makes it" >&2
		exit 1
	}
done
[ "${#archives[@]}${#nodes[@]}" = 11 ] || {
	echo "context: build/packages has packages of several versions" >&2
	exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"
mkdir -p "$out/payload"
tar -C "$out/payload" --strip-components=1 -xf "${archives[0]}"
# A private Node.js, because a node has none: install.sh takes it along.
dpkg-deb --fsys-tarfile "${nodes[0]}" | tar -C "$work" -x
tar -C "$work/usr/lib/kfd-checkpoint" --owner=0 --group=0 -rf "$out/payload/files.tar" ./node
cp deploy/kubernetes/{Containerfile,node.sh} "$out/"
chmod 755 "$out/node.sh"
echo "$out"
