#!/usr/bin/env bash
# enter.sh FOLDER CMD...: run CMD in the emulated machine that set_up.sh has made, in /project, which is the project.
#
# It runs in user and mount namespaces of its own. So it needs no root, and leaves nothing mounted. The emulator
# is registered (binfmt_misc) for that user namespace alone, which Linux can do from 6.7 on.
set -euo pipefail
folder=$(cd "$1" && pwd); shift
if [ "${SHMCOLL_INSIDE:-}" != 1 ]; then
  unshare --user --map-root-user --mount true 2>/dev/null || {
    echo "make test-aarch64: this machine allows no user namespaces (sysctl user.max_user_namespaces, or a sandbox)" >&2
    exit 1
  }
  SHMCOLL_INSIDE=1 exec unshare --user --map-root-user --mount "$0" "$folder" "$@"
fi
project=$(cd "$(dirname "$0")/../.." && pwd)
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc 2>/dev/null || {
  echo "make test-aarch64: no binfmt_misc in a user namespace; that needs Linux 6.7 or later, this is $(uname -r)" >&2
  exit 1
}
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf '%s' ":shmcoll-aarch64:M::$magic:$mask:$folder/emulator/usr/bin/qemu-aarch64:OCF" >/proc/sys/fs/binfmt_misc/register
for d in proc sys dev tmp; do mount --rbind /$d "$folder/root/$d"; done
mount --bind "$project" "$folder/root/project"
exec /usr/sbin/chroot "$folder/root" /usr/bin/env -i PATH=/usr/bin LANG=C.UTF-8 HOME=/tmp PYTHONDONTWRITEBYTECODE=1 \
  PYTHONPATH=/site:/project:/project/launcher:/project/bench SHMCOLL_CACHE_DIR=/project/.aarch64/cache \
  bash -c 'cd /project && exec "$@"' enter.sh "$@"
