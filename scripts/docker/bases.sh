#!/bin/bash
# Stand-ins for the images that Dockerfile and Dockerfile.queue build upon, for a machine that reaches no registry of
# containers but Debian's and npm's:
#
#   DOCKER_HOST=… bases.sh DIR      node:stand-in-bookworm-slim   Debian and Node, as Node's official slim image
#
# Packages are unpacked, not installed: that takes seconds. Of maintainer scripts ldconfig alone is made up for.
# DIR is scratch space. Debian as root is needed.
set -euo pipefail

dir=$(readlink -m "${1:?a folder}")
repository=$(readlink -f "$(dirname "$0")/../..")
client=/usr/bin/docker
root=$dir/root
packages="base-files base-passwd bash coreutils dash debianutils findutils grep gzip hostname login passwd sed tar
  gcc-12-base libacl1 libattr1 libaudit1 libaudit-common libbz2-1.0 libc6 libc-bin libcap-ng0 libcap2 libcrypt1
  libgcc-s1 libgcrypt20 libgmp10 libgpg-error0 liblz4-1 liblzma5 libpam0g libpam-modules libpam-runtime libpcre2-8-0
  libproc2-0 libselinux1 libsemanage2 libsemanage-common libsepol2 libstdc++6 libsystemd0 libtinfo6 libzstd1 procps zlib1g"

# apt fetches as another user.
mkdir -p "$dir" && chmod 755 "$dir"
install -d -m 777 "$dir/debs"
# shellcheck disable=SC2086
(cd "$dir/debs" && apt-get -qq download $packages)
mkdir -p "$root"/{dev,etc,home,proc,root,run,sys,tmp,usr/{bin,lib,lib64,sbin},var/tmp}
chmod 1777 "$root/tmp" "$root/var/tmp"
for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$root/$folder"; done
for package in "$dir"/debs/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar --extract --keep-directory-symlink --directory "$root"
done
ln -sf dash "$root/usr/bin/sh"
rm -rf "$root"/usr/share/{doc,info,locale,man}
for file in passwd group; do cp "$root/usr/share/base-passwd/$file.master" "$root/etc/$file"; done
sed 's/:.*/:*:19000:0:99999:7:::/' "$root/etc/passwd" >"$root/etc/shadow"
sed 's/:.*/:*::/' "$root/etc/group" >"$root/etc/gshadow"
chroot "$root" /sbin/ldconfig

# The user, Node and npm, and no certificates in /etc/ssl: as in the official image. npm in a build may need those of
# this machine, where a proxy stands before the registry.
echo 'node:x:1000:1000::/home/node:/bin/bash' >>"$root/etc/passwd"
echo 'node:x:1000:' >>"$root/etc/group"
install -d -o 1000 -g 1000 "$root/home/node"
mkdir -p "$root"/usr/local/{bin,lib/node_modules,share}
install "$repository/node_modules/node/bin/node" "$root/usr/local/bin/node"
(cd "$dir" && npm pack --silent npm@11 >/dev/null && tar xzf npm-11*.tgz && mv package "$root/usr/local/lib/node_modules/npm")
ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/local/bin/npm"
cp /etc/ssl/certs/ca-certificates.crt "$root/usr/local/share/ca-of-the-builder.crt"

tar --directory "$root" --create . | "$client" import \
  --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
  --change 'ENV NODE_EXTRA_CA_CERTS=/usr/local/share/ca-of-the-builder.crt' \
  --change 'CMD ["node"]' - node:stand-in-bookworm-slim >/dev/null
rm -rf "$dir"
