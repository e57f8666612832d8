#!/bin/bash
# stubs.sh OBJECT MODULE_SYMVERS LIST: prints C for every symbol that OBJECT needs and that the kernel does not have. No
# GPU without firmware, display, RAS and SMU reaches them. Names with the ending of a table become zeroed memory, others
# become functions that return 0. Fails when a name is not in LIST, because nobody has looked at it.
set -euo pipefail
export LC_ALL=C
object=$1 symvers=$2 list=$3

second() { awk '{ print $2 }' | sort -u; }
wanted=$(comm -23 <(nm -u "$object" | second) <(second <"$symvers") | grep -v '^__this_module$')
unknown=$(comm -23 <(echo "$wanted") <(sed -e 's/#.*//' -e '/^ *$/d' "$list" | sort -u))
if [ -n "$unknown" ]; then
	echo "the driver of this kernel calls what no stub is known for: $(paste -sd' ' <<<"$unknown")" >&2
	echo "Look whether a GPU of the lab can come there. If not, add the names to $(basename "$list")." \
		"Otherwise build the file that has them." >&2
	exit 1
fi

echo '// SPDX-License-Identifier: GPL-2.0 OR MIT'
echo '/* Made by stubs.sh: what the files of the driver that are left out define. */'
while read -r name; do
	case $name in
	*_funcs | *_ras | *_kfd2kgd | *_ops | event_interrupt_class_* | *_tbl* | *_attr_group)
		echo "char $name[1024] __attribute__((aligned(64)));"
		;;
	*) echo "unsigned long $name(void); unsigned long $name(void) { return 0; }" ;;
	esac
done <<<"$wanted"
