#!/bin/bash
# stage.sh: gathers what an installation consists of, from the built tree, into build/stage and build/stage.tar, laid
# out as it lies in /usr/lib/kfd-checkpoint. Fails, naming every missing part.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

stage=$REPO/build/stage
cd "$REPO"

# Where each part is in the built tree, and where in the installation.
parts=(
	"package.json package.json"
	"dist/src dist/src"
	"dist/src/cli/main.js dist/src/cli/main.js"
	"dist/src/session/main.js dist/src/session/main.js"
	"dist/hooks dist/hooks"
	"hooks/criu-action hooks/criu-action"
	"build/native/kfd_checkpoint.node lib/kfd_checkpoint.node"
	"build/native/criu/kfd_checkpoint.so criu/kfd_checkpoint.so"
	"build/native/kfd-checkpoint-launch libexec/kfd-checkpoint-launch"
)

missing=
for part in "${parts[@]}"; do
	[ -e "${part% *}" ] || missing+=" ${part% *}"
done
[ -z "$missing" ] || die "cannot stage, not built:$missing (npm run build makes them)"

# What npm would install without development packages; a peer is only there for those.
production_packages() {
	node -e '
		const { packages } = JSON.parse(require("fs").readFileSync("package-lock.json", "utf8"));
		for (const [path, entry] of Object.entries(packages)) {
			if (path !== "" && !entry.dev && !entry.devOptional && !entry.peer) console.log(path);
		}'
}

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
production_packages | while read -r path; do
	[ -d "$path" ] || die "cannot stage, not installed: $path (npm ci does it)"
	mkdir -p "$stage/$(dirname "$path")"
	cp -a -T "$path" "$stage/$path"
done
chmod +x "$stage/dist/src/cli/main.js" "$stage"/hooks/*

# One file for the guest: reading a thousand small ones over its file share takes longer than booting it.
tar -C "$stage" --owner=0 --group=0 --exclude='*.md' --exclude='*.map' --exclude='*.d.ts' --exclude='./node_modules/*/test' \
	--exclude='./node_modules/*/prebuilds' \
	-cf "$stage.tar.tmp" .
mv "$stage.tar.tmp" "$stage.tar"
