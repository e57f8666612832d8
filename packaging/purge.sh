#!/bin/sh
# purge.sh: removes what the programs have written outside /etc. uninstall.sh runs it. The scripts of the packages
# contain it: a purge comes after the files. So it has no percent sign, which rpm would replace.
state=/var/lib/kfd-checkpoint
rm -rf /var/log/kfd-checkpoint /run/kfd-checkpoint.staging /run/kfd-checkpoint.slots /run/kfd-checkpoint.metrics
# A migration to this host that has not ended has memory mounted there, which holds what has arrived: it stays.
rm -rf --one-file-system /run/kfd-checkpoint 2>/dev/null || :
rm -f "$state/last-migration.json" "$state"/.last-migration.json.*.tmp
# A migration that has not ended keeps there what its container is restored from.
left=
for folder in "$state/kept" "$state/migrations" "$state/store"; do
  [ -d "$folder" ] || continue
  find "$folder/" -xdev -depth -type d -empty -delete 2>/dev/null || :
  [ ! -d "$folder" ] || left="$left $folder"
done
[ -z "$left" ] || echo "kfd-checkpoint: not removed, because a container may need it:$left" >&2
rmdir "$state" 2>/dev/null || :
