# Becomes Node.js with the arguments of the script that reads this file: the private one of the package
# kfd-checkpoint-node, or else the one in PATH. $here is this folder.
private=$here/../node/bin/node
[ ! -x "$private" ] || exec "$private" "$@"
if ! command -v node >/dev/null; then
  echo 'kfd-checkpoint: no Node.js in PATH: install nodejs 20 or later, or the package kfd-checkpoint-node' >&2
  exit 127
fi
# Node.js takes a path that begins otherwise for the name of a package.
case $here in
  /* | .*) ;;
  *) here=./$here ;;
esac
# To ask for the version here would start Node.js twice.
exec node --require "$here/require-node.cjs" "$@"
