#!/bin/bash
# A Docker daemon of our own for the tests, on Debian as root: for machines that have none. It may run beside another:
# bridge, addresses, socket and folder are its own. No firewall rule and no setting of the machine's network is touched,
# so its containers reach the machine (host.docker.internal) and each other, not the internet; builds use the
# machine's network.
#
#   daemon.sh up DIR       prints its address, for DOCKER_HOST; installs Debian's docker.io and docker-compose where
#                          they are missing
#   daemon.sh stop DIR     ends the daemon; `up` brings it up again with all that it had
#   daemon.sh down DIR     removes its containers, the daemon, its bridges, and DIR
#
# DIR is a folder that nothing else uses. Ends only the daemon of that folder, which it knows by its socket.
set -euo pipefail

command=${1:-}
dir=$(readlink -m "${2:?the folder of the daemon}")
client=/usr/bin/docker # Debian's: a newer one, without its buildx plug-in, cannot build here
# The name of a network interface has 15 characters at most.
bridge=wv-$(cksum <<<"$dir" | cut -d ' ' -f 1)
export DOCKER_HOST=unix://$dir/docker.sock

answers() { "$client" info >/dev/null 2>&1; }

# Prints the first of our /24 networks that no interface and no route uses. Docker's own choice is 172.17 and up.
free_network() {
  local third
  for third in $(seq 0 2 254); do
    # Not -q, which ends before `ip` has: that would read as "not found".
    if ! ip -4 route show table all | grep "10\.209\.\($third\|$((third + 1))\)\." >/dev/null; then
      echo "10.209.$third"
      return
    fi
  done
  echo "all of 10.209.0.0/16 is in use" >&2
  exit 1
}

install_docker() {
  if command -v dockerd docker-compose >/dev/null && [ -x "$client" ]; then return; fi
  apt-get -o DPkg::Lock::Timeout=300 -qq update
  apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends docker.io docker-compose >/dev/null
}

up() {
  install_docker >&2
  mkdir -p "$dir"
  if ! answers; then
    if ! ip link show "$bridge" >/dev/null 2>&1; then
      network=$(free_network)
      ip link add "$bridge" type bridge
      ip addr add "$network.1/24" dev "$bridge"
      ip link set "$bridge" up
      echo "$network" >"$dir/network"
    fi
    network=$(cat "$dir/network")
    # Networks that compose makes get halves of the /24 beside that of the bridge.
    next=10.209.$((${network##*.} + 1))
    setsid nohup dockerd --host "$DOCKER_HOST" --data-root "$dir/data" --exec-root "$dir/run" \
      --pidfile "$dir/docker.pid" --containerd-namespace "$bridge" --containerd-plugins-namespace "$bridge-plugins" \
      --bridge "$bridge" --default-address-pool "base=$next.0/24,size=26" \
      --iptables=false --ip6tables=false --ip-masq=false --ip-forward=false \
      --storage-driver overlay2 --exec-opt native.cgroupdriver=cgroupfs >>"$dir/dockerd.log" 2>&1 </dev/null &
    for _ in $(seq 300); do
      ! answers || break
      sleep 0.1
    done
    answers || { tail -n 5 "$dir/dockerd.log" >&2; exit 1; }
  fi
  echo "$DOCKER_HOST"
}

stop() {
  local pid
  pid=$(cat "$dir/docker.pid" 2>/dev/null || true)
  if [ -z "$pid" ] || ! grep -qs -- "$dir/docker.sock" "/proc/$pid/cmdline"; then return 0; fi
  kill "$pid"
  for _ in $(seq 300); do
    [ -d "/proc/$pid" ] || return 0
    sleep 0.1
  done
  kill -9 "$pid"
}

down() {
  local mount link
  # Of a daemon that died the containers run on, and only a daemon ends them.
  if [ -d "$dir/data" ] && ! answers; then up >/dev/null 2>&1 || true; fi
  if answers; then
    "$client" ps --all --quiet | xargs --no-run-if-empty "$client" rm --force >/dev/null
    # Bridges of networks that somebody made.
    "$client" network prune --force >/dev/null
  fi
  stop
  ip link delete "$bridge" 2>/dev/null || true
  for mount in $(awk -v dir="$dir/" 'index($2, dir) == 1 { print $2 }' /proc/mounts | sort -r); do
    umount "$mount" || true
  done
  rm -rf --one-file-system "$dir"
}

case $command in
  up | stop | down) "$command" ;;
  *) sed -n '2,/^set/{/^#/p}' "$0" >&2; exit 2 ;;
esac
