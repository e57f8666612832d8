#!/bin/sh
# node.sh install|wait|remove: what the DaemonSet runs on each node, in a privileged container that sees the processes
# of the node. Environment:
#   PREFIX            (/usr/local) where the product is put on the node
#   POD_ANNOTATIONS   (no) yes: pods may name the image that they are restored from
#   CONTAINERD_UNIT   (containerd.service) what is restarted when its configuration has changed
set -eu
# Of the node's commands: the image may have set another one.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
prefix=${PREFIX:-/usr/local} unit=${CONTAINERD_UNIT:-containerd.service}
own=$prefix/lib/kfd-checkpoint program=$prefix/bin/kfd-checkpoint
payload=${0%/*}/payload
# A boot of the node restarts containerd, too.
mark=${RESTART_MARK:-/run/kfd-checkpoint.restart}

# on_host COMMAND: runs it with the files and mounts of the node. ON_HOST and PROC are for tests.
on_host() {
  # shellcheck disable=SC2086 # words
  ${ON_HOST-nsenter --target 1 --mount --} "$@"
}

say() { echo "node: $*" >&2; }

# configuration: changes when containerd's configuration does.
configuration() {
  on_host sh -c 'cat /etc/containerd/config.toml /etc/containerd/conf.d/*.toml 2>/dev/null | sha256sum'
}

# from_payload SCRIPT: runs a script of the payload on the node, where nothing of the payload stays.
from_payload() {
  work=$(on_host mktemp -d /var/tmp/kfd-checkpoint.XXXXXX)
  trap 'on_host rm -rf "$work"' EXIT
  tar -C "$payload" -c . | on_host tar -C "$work" --no-same-owner -x
  on_host env "PREFIX=$prefix" bash "$work/$1"
  on_host rm -rf "$work"
  trap - EXIT
}

# to_restart: from now on containerd may have to be restarted, also when this script ends before it has done that. The
# node keeps what the configuration was.
to_restart() {
  configuration | on_host sh -c "[ -e '$mark' ] || cat >'$mark'"
}

# restart_if_changed: containers run on meanwhile. Nobody waits for it, because this container is one of them.
restart_if_changed() {
  if [ "$(configuration)" != "$(on_host cat "$mark")" ]; then
    say "restarting $unit"
    on_host systemctl restart --no-block "$unit"
  fi
  on_host rm -f "$mark"
}

# in_use: whether a container runs behind our shim.
in_use() {
  for file in "${PROC:-/proc}"/[0-9]*/cmdline; do
    words=$(tr '\0' ' ' 2>/dev/null <"$file") || continue
    case $words in *"$own/dist/shim/main.js"*) return 0 ;; esac
  done
  return 1
}

case ${1:-} in
  install)
    to_restart
    from_payload install.sh
    set -- --edit
    [ "${POD_ANNOTATIONS:-no}" != yes ] || set -- "$@" --pod-annotations
    on_host "$program" configure containerd "$@"
    on_host "$program" check || say 'the node lacks something: see above'
    restart_if_changed
    ;;
  wait)
    exec sleep infinity
    ;;
  remove)
    if in_use; then
      say "containers run behind the shim: $own stays. Delete their pods, then this pod again"
      exit 0
    fi
    to_restart
    from_payload uninstall.sh
    restart_if_changed
    ;;
  *)
    echo 'usage: node.sh install|wait|remove' >&2
    exit 64
    ;;
esac
