# What the packages hold, as trees of files. Sourced by package.sh, never run.
# shellcheck shell=bash

# bill FILE: writes the bill of materials, CycloneDX, of the npm packages that the programs are made of. npm would leave
# out a package that development needs, too, and takes the folder's name for the program's: so it sees a folder without
# packages for development. It also adds a random number and the time, which would make each build another one. A
# subshell: its temporary folder goes, too, when a step fails.
bill() (
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	mkdir "$work/kfd-checkpoint"
	# shellcheck disable=SC2016 # JavaScript
	node -e '
		const { readFileSync, writeFileSync } = require("fs");
		const read = (name) => JSON.parse(readFileSync(name, "utf8"));
		const program = read("package.json");
		const lock = read("package-lock.json");
		delete program.devDependencies;
		delete lock.packages[""].devDependencies;
		for (const [path, { dev, devOptional }] of Object.entries(lock.packages))
			if (dev || devOptional) delete lock.packages[path];
		writeFileSync(`${process.argv[1]}/package.json`, JSON.stringify(program));
		writeFileSync(`${process.argv[1]}/package-lock.json`, JSON.stringify(lock));' "$work/kfd-checkpoint"
	# shellcheck disable=SC2016 # JavaScript
	# npm of Debian 12 and 13 is older than this command, and each release of npm names itself in the bill.
	(cd "$work/kfd-checkpoint" && npm exec --yes --package=npm@10.9.9 -- \
		npm sbom --sbom-format=cyclonedx --package-lock-only) | node -e '
		const bill = JSON.parse(require("fs").readFileSync(0, "utf8"));
		delete bill.serialNumber;
		bill.metadata.timestamp = new Date(process.env.SOURCE_DATE_EPOCH * 1000).toISOString();
		process.stdout.write(`${JSON.stringify(bill, null, 2)}\n`);' >"$1"
)

# product_tree DIR: everything but Node.js.
product_tree() {
	local doc=$1/usr/share/doc/kfd-checkpoint
	DESTDIR=$1 PREFIX=/usr packaging/install.sh
	rm "$1/usr/lib/kfd-checkpoint/installed-files" # a package has a list of its own
	cp README.md CHANGELOG.md SECURITY.md "$doc/"
	mv "$1/usr/lib/kfd-checkpoint/THIRD-PARTY-NOTICES" "$doc/"
	bill "$doc/sbom.cdx.json"
	cat packaging/deb/copyright LICENSE >"$doc/copyright"
	plain_modes "$1"
}

# node_tree DIR: the private Node.js.
node_tree() {
	local from doc=$1/usr/share/doc/kfd-checkpoint-node
	from=$(packaging/node.sh 24)
	mkdir -p "$1/usr/lib/kfd-checkpoint/node/bin" "$doc"
	cp "$from/node" "$1/usr/lib/kfd-checkpoint/node/bin/node"
	cp "$from/LICENSE" "$doc/copyright"
	plain_modes "$1"
}

# plain_modes DIR: permissions and times do not depend on the umask and on the moment of the build.
plain_modes() {
	find "$1" -type d -exec chmod 755 {} +
	find "$1" -type f -perm -100 -exec chmod 755 {} +
	find "$1" -type f ! -perm -100 -exec chmod 644 {} +
	find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}
