# Shared by kubelet.sh, containerd.sh and crio.sh: programs that the user names, and that are not of this repository.
# Sourced, never run.
# shellcheck shell=bash

# put_in_place FOLDER FILE...: copies them to where the guest sees them, alone.
put_in_place() {
	local folder=$1
	shift
	rm -rf "$folder" && mkdir -p "$folder" && cp "$@" "$folder" && chmod +x "$folder"/*
}

# given_containerd: the build that CONTAINERD names replaces the second containerd of the guest.
given_containerd() {
	put_in_place build/containerd "$CONTAINERD"/{containerd,ctr,containerd-shim-runc-v2}
}
