#!/usr/bin/env bash
# set_up.sh FOLDER: a small Debian for aarch64, with Python and what shmcoll needs, and an emulator for it.
#
# It takes Debian packages with apt and wheels with pip. apt gets settings of its own: its lists, its cache and its list of
# installed packages stay in FOLDER. Nothing is installed, or changed, outside FOLDER.
# It needs a Debian-like x86-64 machine with apt-get, dpkg-deb and Debian's keyring, and Linux 6.7 or later to run it all
# (see enter.sh). It takes 0.5 GB and a minute.
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd)
python=${PYTHON:-python3}
keys=/usr/share/keyrings/debian-archive-keyring.gpg
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

fail() { echo "make test-aarch64 cannot set up its emulated machine: $*" >&2; exit 1; }

[ "$(uname -m)" = x86_64 ] || fail "this is $(uname -m), not x86_64; on aarch64 itself, make test is enough"
for tool in apt-get dpkg-deb unshare; do
  command -v $tool >/dev/null || fail "there is no $tool"
done
[ -r $keys ] || fail "there is no $keys; apt-get install debian-archive-keyring"

apt=$folder/apt
mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$folder/debs"
touch "$apt/status"
cat >"$apt/sources.list" <<EOF
deb [signed-by=$keys] $mirror bookworm main
deb [signed-by=$keys] $mirror bookworm-backports main
EOF
cat >"$apt/apt.conf" <<EOF
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
APT::Architecture "arm64";
APT::Architectures {"arm64"; "amd64";};
APT::Sandbox::User "root";
EOF
export APT_CONFIG=$apt/apt.conf

echo "== Debian packages for aarch64"
apt-get -qq update || fail "no package lists from $mirror; set DEBIAN_MIRROR to another one, or look at the network"
(
  cd "$folder/debs"
  # the emulator from backports, version 10.0: what this was tried with
  apt-get -qq download -t bookworm-backports qemu-user:amd64
  apt-get -qq download base-files bash coreutils dash debianutils libacl1 libattr1 libbz2-1.0 libc-bin libc6 libcom-err2 \
    libcrypt1 libdb5.3 libexpat1 libffi8 libgcc-s1 libgmp10 libgomp1 libkrb5-3 liblzma5 libncursesw6 libnsl2 libpcre2-8-0 \
    libproc2-0 libpython3.11-minimal libpython3.11-stdlib libreadline8 libselinux1 libsqlite3-0 libssl3 libstdc++6 \
    libtinfo6 libtirpc3 libuuid1 media-types procps python3.11 python3.11-minimal util-linux zlib1g
) || fail "a Debian package could not be had from $mirror; set DEBIAN_MIRROR to another one, or look at the network"
rm -rf "$folder/root" "$folder/emulator"
mkdir -p "$folder/root/usr/"{bin,lib,sbin} "$folder/root/"{proc,sys,dev,tmp,project,site} "$folder/emulator"
for d in bin lib sbin; do ln -s usr/$d "$folder/root/$d"; done
for package in "$folder"/debs/*_arm64.deb "$folder"/debs/*_all.deb; do
  [ -e "$package" ] && dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$folder/root"
done
dpkg-deb --fsys-tarfile "$folder"/debs/qemu-user_*.deb | tar -x -C "$folder/emulator" ./usr/bin/qemu-aarch64

echo "== wheels for aarch64"
platforms=(manylinux_2_28 manylinux_2_27 manylinux_2_24 manylinux_2_17 manylinux2014)
options=(--python-version 3.11 --implementation cp --only-binary=:all:)
for p in "${platforms[@]}"; do options+=(--platform "${p}_aarch64"); done
same() { $python -m pip freeze --disable-pip-version-check 2>/dev/null | grep -iE "^($1)=="; }
mapfile -t wanted < <(same 'numpy|numba|llvmlite|ml_dtypes|cloudpickle|pytest|hypothesis|greenlet')
$python -m pip install --quiet --disable-pip-version-check --no-compile --upgrade --target "$folder/root/site" \
  "${options[@]}" "${wanted[@]}" || fail "a wheel could not be had"
touch "$folder/.ready"
