#!/bin/sh
# What a node makes of the DaemonSet's pod, as far as one machine can: its own processes and mounts, a root file system
# that nobody writes to, the volumes, the user and the capabilities. Called as
#   unshare --mount --pid --fork --kill-child pod.sh DIR BINARY USER CAPABILITIES ARGUMENT...
# DIR/config is the ConfigMap; CAPABILITIES are those of the container, "-" for none.
set -eu
dir=$1 binary=$2 user=$3 capabilities=$4
shift 4

# The image's users and nothing else of the host's /etc.
mkdir -p "$dir/etc/farmhand"
cp /etc/nsswitch.conf "$dir/etc/"
cat >"$dir/etc/passwd" <<'END'
root:x:0:0:root:/root:/bin/sh
farmhand:x:10001:10001::/var/lib/farmhand:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
END
printf 'root:x:0:\nfarmhand:x:10001:\nnogroup:x:65534:\n' >"$dir/etc/group"
# The kubelet shows a ConfigMap through a link that it swaps.
mkdir "$dir/etc/farmhand/..2026_11_21"
cp "$dir"/config/* "$dir/etc/farmhand/..2026_11_21/"
ln -s ..2026_11_21 "$dir/etc/farmhand/..data"
for file in "$dir"/config/*; do
    ln -s "..data/${file##*/}" "$dir/etc/farmhand/${file##*/}"
done

chmod 0777 "$dir/etc/farmhand"
# A mount with subPath is a file of its own.
if [ -e "$dir/config/policy.toml" ]; then cp "$dir/config/policy.toml" "$dir/etc/farmhand-policy.toml"; fi

mount -t tmpfs -o mode=755 pod /var/lib
mkdir /var/lib/farmhand /var/lib/image
touch /var/lib/image/farmhand
mount --bind "$binary" /var/lib/image/farmhand
mount --bind "$dir/etc" /etc
# An emptyDir belongs to root, and everybody may write to it.
mount -t tmpfs -o mode=777 state /var/lib/farmhand
if [ "$user" = 0 ]; then chmod 0755 /var/lib/farmhand; fi
mount -t tmpfs -o mode=777 tmp /tmp
mount -t proc proc /proc
for cgroups in /sys/fs/cgroup /sys/fs/cgroup/*; do
    if mountpoint -q "$cgroups"; then mount -o remount,bind,ro "$cgroups"; fi
done
for read_only in / /etc /var/lib; do
    mountpoint -q "$read_only" && mount -o remount,bind,ro "$read_only"
done

set -- /var/lib/image/farmhand "$@"
if [ "$capabilities" = - ]; then
    set -- --bounding-set=-all --inh-caps=-all "$@"
else
    set -- --bounding-set="-all,$capabilities" --inh-caps="-all,$capabilities" "$@"
fi
cd /var/lib/farmhand
exec setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs "$@"
