#!/bin/bash
# stubs.sh OBJECT MODULE_SYMVERS LIST: C for every symbol that neither the driver's files which are built nor the
# kernel have, and that no
# file of ours defines. None is reached by a GPU without firmware, display, RAS and SMU. Names that end as a table's
# do become zeroed
# memory, others functions that return 0. Fails, and says why, when a name is not in LIST: it was looked at by nobody.
set -euo pipefail
export LC_ALL=C
object=$1 symvers=$2 list=$3

wanted=$(comm -23 <(nm -u "$object" | awk '{ print $2 }' | sort -u) <(awk '{ print $2 }' "$symvers" | sort -u) | grep -v '^__this_module$')
unknown=$(comm -23 <(echo "$wanted") <(sed -e 's/#.*//' -e '/^ *$/d' "$list" | sort -u))
if [ -n "$unknown" ]; then
	echo "the driver of this kernel calls what no stub is known for: $(paste -sd' ' <<<"$unknown")" >&2
	echo "look whether a GPU of the lab can come there; if not, add the names to $(basename "$list"), else build the file that has them" >&2
	exit 1
fi

echo '// SPDX-License-Identifier: GPL-2.0 OR MIT'
echo '/* Made by stubs.sh: what the files of the driver that are left out define. */'
while read -r name; do
	case $name in
	*_funcs | *_ras | *_kfd2kgd | *_ops | event_interrupt_class_* | *_tbl* | *_attr_group) echo "char $name[1024] __attribute__((aligned(64)));" ;;
	*) echo "unsigned long $name(void); unsigned long $name(void) { return 0; }" ;;
	esac
done <<<"$wanted"
