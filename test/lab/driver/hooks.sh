#!/bin/bash
# hooks.sh FOLDER LIST: checks that each file of LIST, compiled below FOLDER, makes the call that LIST renames in it.
# Prints every call that is missing.
set -euo pipefail
folder=$1 list=$2

status=0
while read -r file call ours why; do
	[[ -n $file && $file != '#'* ]] || continue
	nm -u "$folder/$file.o" | awk '{ print $2 }' | grep -qx "$ours" && continue
	echo "$file.c of this kernel's driver does not call $call any more." \
		"$ours takes that call for the simulated hardware: $why" >&2
	status=1
done <"$list"
exit "$status"
