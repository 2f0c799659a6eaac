#!/bin/bash
# An image in which systemd is PID 1 and the queue's image has put the programs, for a machine that reaches no registry
# of containers but Debian's packages:
#
#   DOCKER_HOST=… systemd.sh DIR BASE TAG      TAG: BASE, the queue's image, with systemd of this machine's Debian
#
# Packages are unpacked, as in bases.sh. DIR is scratch space. Debian as root is needed.
set -euo pipefail

dir=$(readlink -m "${1:?a folder}")
base=${2:?the image of the queue}
tag=${3:?a name for the image}
root=$dir/root
packages="systemd systemd-sysv libsystemd-shared dbus dbus-bin dbus-daemon dbus-system-bus-common libdbus-1-3 libexpat1
  mount util-linux util-linux-extra libapparmor1 libargon2-1 libblkid1 libcap2 libcrypt1 libcryptsetup12
  libdevmapper1.02.1 libfdisk1 libip4tc2 libjson-c5 libkmod2 libmount1 libseccomp2 libsmartcols1 libssl3 libudev1 libuuid1"

# apt fetches as another user.
mkdir -p "$dir" && chmod 755 "$dir"
install -d -m 777 "$dir/debs"
# shellcheck disable=SC2086
(cd "$dir/debs" && apt-get -qq download $packages)
mkdir -p "$root"/{etc,usr/{bin,lib,lib64,sbin}}
for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$root/$folder"; done
for package in "$dir"/debs/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar --extract --keep-directory-symlink --directory "$root"
done
rm -rf "$root"/usr/share/{doc,info,locale,man}
# A machine with an id has been started before: nothing is asked and no preset is applied.
echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id"
tar --directory "$root" --create --file "$dir/root.tar" .
rm -rf "$root" "$dir/debs"
cat >"$dir/Dockerfile" <<END
FROM $base
USER root
ADD root.tar /
RUN ldconfig
HEALTHCHECK NONE
STOPSIGNAL SIGRTMIN+3
ENTRYPOINT ["/lib/systemd/systemd"]
CMD []
END
DOCKER_BUILDKIT=1 /usr/bin/docker build --quiet --network host --tag "$tag" "$dir" >/dev/null
rm -rf "$dir"
