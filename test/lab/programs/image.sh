#!/bin/sh
# Packs the programs with everything they need to run into a docker archive.
# usage: image.sh BUILDER_DIR WORK_DIR BUSYBOX IMAGE_TAR
# WORK_DIR lies inside BUILDER_DIR and has bin/; it is scratch space, the caller removes it.
set -eu
builder=$1 work=$2 busybox=$3 image=$4
inside=${work#"$builder"}
root=$work/root
mkdir -p "$root/usr/bin" "$root/usr/lib64" "$root/usr/share/libdrm" "$root/ctl" "$root/tmp" "$root/etc" \
  "$root/root" "$root/proc" "$root/sys" "$root/dev"
ln -s usr/bin "$root/bin"
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"
chmod 1777 "$root/tmp"
cp "$work"/bin/* "$root/usr/bin/"
cp "$busybox" "$root/usr/bin/busybox"
for applet in sh ash cat cp date dmesg echo env false grep head hostname id kill ln ls mkdir mount mv nc ps \
  pwd readlink rm sed seq sleep sort stat tail test touch tr true umount uname wc wget; do
  ln -s busybox "$root/usr/bin/$applet"
done
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
echo 'root:x:0:' >"$root/etc/group"
cp "$builder/usr/share/libdrm/amdgpu.ids" "$root/usr/share/libdrm/"

# The closure of shared libraries. ldd prints "name => /path (address)" and "/loader (address)".
for program in gpu-worker kfd-worker kfd-opener render-worker; do
  chroot "$builder" ldd "$inside/bin/$program" >"$work/ldd"
  if grep 'not found' "$work/ldd" >&2; then exit 1; fi
  sed -n 's|^[^/]*\(/[^ ]*\) (.*|\1|p' "$work/ldd"
done | sort -u >"$work/libraries"
while read -r library; do
  # /lib is a link to /usr/lib in both trees.
  target=$root/usr/${library#/usr/}
  case $library in /lib*) target=$root/usr$library ;; esac
  mkdir -p "$(dirname "$target")"
  cp -L "$builder$library" "$target"
done <"$work/libraries"

pack() { tar --sort=name --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$1" -cf "$2" .; }
sha() { sha256sum "$1" | cut -d' ' -f1; }
find "$root" -type d ! -name tmp -exec chmod 755 {} +
chmod 755 "$root"/usr/bin/gpu-* "$root"/usr/bin/kfd-* "$root"/usr/bin/render-* "$root"/usr/bin/busybox

archive=$work/archive
mkdir "$archive"
pack "$root" "$archive/layer.tar"
cat >"$work/config" <<EOF
{"architecture":"amd64","os":"linux","created":"1970-01-01T00:00:00Z",
"config":{"Env":["PATH=/usr/bin"],"Cmd":["/bin/sh"],"WorkingDir":"/"},
"rootfs":{"type":"layers","diff_ids":["sha256:$(sha "$archive/layer.tar")"]},
"history":[{"created":"1970-01-01T00:00:00Z","created_by":"kfd-checkpoint test programs"}]}
EOF
config=$(sha "$work/config").json
mv "$work/config" "$archive/$config"
printf '[{"Config":"%s","RepoTags":["localhost/gpu-worker:latest"],"Layers":["layer.tar"]}]\n' "$config" \
  >"$archive/manifest.json"
pack "$archive" "$image.new"
mv "$image.new" "$image"
