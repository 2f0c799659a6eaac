#!/bin/bash
# Runs once on a new machine, as root, at the end of cloud-init: Node, the package, the volume; then it starts the queue.
# A machine that is made anew finds the state of the one before on the volume.
set -euo pipefail
# shellcheck disable=SC1091
. /etc/worker-vllm/install.env

# $1: address, $2: SHA-256, $3: folder
unpack() {
  local archive
  archive=$(mktemp)
  curl --fail --silent --show-error --location --retry 5 --retry-connrefused --output "$archive" "$1"
  sha256sum --check --quiet <<<"$2  $archive"
  mkdir -p "$3"
  tar --extract --file "$archive" --strip-components 1 --directory "$3" --no-same-owner
  rm "$archive"
}

unpack "$NODE_URL" "$NODE_SHA256" /opt/node
unpack "$PACKAGE_URL" "$PACKAGE_SHA256" /opt/worker-vllm
ln -sf /opt/node/bin/node /usr/local/bin/node
ln -sf /opt/worker-vllm/bin/worker-vllm.js /usr/local/bin/worker-vllm
chmod +x /opt/worker-vllm/bin/worker-vllm.js

if [ -n "$STATE_DEVICE" ]; then
  # A provider may attach a volume after the machine has started.
  for _ in $(seq 300); do
    [ ! -b "$STATE_DEVICE" ] || break
    sleep 1
  done
  blkid "$STATE_DEVICE" >/dev/null || mkfs.ext4 -q "$STATE_DEVICE"
  mkdir -p /var/lib/worker-vllm
  # The unit needs the mount, so it fails rather than start without its state.
  echo "$STATE_DEVICE /var/lib/worker-vllm ext4 defaults,nofail 0 2" >>/etc/fstab
  systemctl daemon-reload
  mount /var/lib/worker-vllm
fi

systemd-sysusers
systemctl daemon-reload
systemctl enable --now worker-vllm-queue
systemctl enable caddy
systemctl restart caddy
