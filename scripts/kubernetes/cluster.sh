#!/bin/bash
# The processes of a Kubernetes 1.20 of one node, named "node", of the programs that build.sh makes. It may run beside
# other clusters and daemons: everything listens at the address of its own bridge, and no firewall rule and no setting
# of the kernel is touched. Debian 12 as root.
#
#   cluster.sh prepare DIR BIN       a Docker daemon and what the programs read: keys, DIR/kubeconfig. Prints the address
#   cluster.sh start DIR NAME...     etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet
#   cluster.sh stop DIR NAME...      as by `kill -9`
#   cluster.sh down DIR              ends everything of it and removes DIR
#
# Pods run the images of its daemon (DIR/docker/docker.sock), those tagged other than :latest without a pull, and reach
# the machine at the address of the bridge. Services and their names are left to services.ts. What it is not: a recent
# one; fieldValidation, server-side apply, device plug-ins and cgroups of pods are missing.
set -euo pipefail

command=${1:-}
dir=$(readlink -m "${2:?the folder of the cluster}")
daemon=$(dirname "$(readlink -f "$0")")/../docker/daemon.sh
docker=/usr/bin/docker
export DOCKER_HOST=unix://$dir/docker/docker.sock

prepare() {
  mkdir -p "$dir/pid" "$dir/log" "$dir/certs"
  chmod 700 "$dir"
  ln -sfn "$(readlink -f "$1")" "$dir/bin"
  "$daemon" up "$dir/docker" >&2
  tar --directory "$dir/bin/" --create pause | "$docker" import --change 'ENTRYPOINT ["/pause"]' - pause:test >/dev/null
  # The kubelet has these places whatever it is told. Removed in the end where they are ours.
  for place in /var/log/pods /var/log/containers /var/lib/kubelet; do [ -e $place ] || echo $place >>"$dir/places"; done
  address=$(cat "$dir/docker/network").1
  token=$(openssl rand -hex 24)
  openssl genrsa -out "$dir/sa.key" 2048 2>/dev/null
  echo "$token,admin,admin,system:masters" >"$dir/tokens.csv"
  cat >"$dir/kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters: [{ name: test, cluster: { server: "https://$address:6443", certificate-authority: $dir/certs/apiserver.crt } }]
users: [{ name: admin, user: { token: $token } }]
contexts: [{ name: test, context: { cluster: test, user: admin } }]
current-context: test
YAML
  echo "$address"
}

start() {
  local name=$1 address third
  if alive "$name"; then return; fi
  address=$(cat "$dir/docker/network").1
  # Addresses of services: the half of the daemon's addresses that its bridge has not.
  third=$(cut -d . -f 3 <<<"$address")
  case $name in
    etcd)
      set -- /usr/bin/etcd --data-dir "$dir/etcd" --log-level warn --unsafe-no-fsync
      set -- "$@" --listen-client-urls "http://$address:2379" --advertise-client-urls "http://$address:2379"
      set -- "$@" --listen-peer-urls "http://$address:2380"
      ;;
    kube-apiserver)
      set -- "$dir/bin/$name" --etcd-servers "http://$address:2379" --cert-dir "$dir/certs" --insecure-port 0
      set -- "$@" --bind-address "$address" --advertise-address "$address" --secure-port 6443
      set -- "$@" --service-cluster-ip-range "10.209.$((third + 1)).0/24" --allow-privileged
      set -- "$@" --authorization-mode RBAC --token-auth-file "$dir/tokens.csv"
      set -- "$@" --service-account-issuer https://kubernetes.default.svc
      set -- "$@" --service-account-key-file "$dir/sa.key" --service-account-signing-key-file "$dir/sa.key"
      ;;
    kube-controller-manager)
      set -- "$dir/bin/$name" --kubeconfig "$dir/kubeconfig" --leader-elect=false --port 0 --secure-port 0
      set -- "$@" --service-account-private-key-file "$dir/sa.key" --root-ca-file "$dir/certs/apiserver.crt"
      # A node is taken for lost after seconds, not 40 of them, and its pods are to go.
      set -- "$@" --node-monitor-grace-period 16s
      ;;
    kube-scheduler)
      set -- "$dir/bin/$name" --kubeconfig "$dir/kubeconfig" --leader-elect=false --port 0 --secure-port 0
      ;;
    kubelet)
      set -- "$dir/bin/$name" --kubeconfig "$dir/kubeconfig" --hostname-override node --node-ip "$address"
      set -- "$@" --address "$address" --healthz-port 0 --read-only-port 0 --anonymous-auth=false
      set -- "$@" --root-dir "$dir/kubelet" --cert-dir "$dir/certs" --volume-plugin-dir "$dir/plugins"
      set -- "$@" --container-runtime docker --docker-endpoint "$DOCKER_HOST" --pod-infra-container-image pause:test
      set -- "$@" --container-runtime-endpoint "unix://$dir/dockershim.sock"
      set -- "$@" --experimental-dockershim-root-directory "$dir/dockershim" --cgroup-driver cgroupfs
      set -- "$@" --cgroups-per-qos=false --enforce-node-allocatable= --oom-score-adj 0 --fail-swap-on=false
      # This machine's disk and memory are not the cluster's; GPUs are written into the node's status by tests.
      set -- "$@" --eviction-hard 'memory.available<1Mi' --image-gc-high-threshold 100
      set -- "$@" --feature-gates DevicePlugins=false --node-status-update-frequency 4s
      set -- "$@" --make-iptables-util-chains=false --cluster-dns "$address" --cluster-domain cluster.local
      ;;
    *)
      echo "no such program: $name" >&2
      exit 2
      ;;
  esac
  setsid nohup "$@" >>"$dir/log/$name" 2>&1 </dev/null &
  echo "$! $(awk '{ print $22 }' "/proc/$!/stat")" >"$dir/pid/$name"
}

# Its number and when it began: the number alone may be somebody else's by now.
alive() {
  local pid began
  [ -f "$dir/pid/$1" ] || return 1
  read -r pid began <"$dir/pid/$1"
  [ "$(awk '{ print $22 }' "/proc/$pid/stat" 2>/dev/null)" = "$began" ]
}

stop() {
  local name=$1 signal=${2:-KILL} pid
  if alive "$name"; then
    read -r pid _ <"$dir/pid/$name"
    kill "-$signal" "$pid"
    for _ in $(seq 100); do
      alive "$name" || break
      sleep 0.1
    done
    if alive "$name"; then kill -KILL "$pid"; fi
  fi
  rm -f "$dir/pid/$name"
}

down() {
  local name mount
  # Who starts containers goes first.
  for name in kubelet kube-controller-manager kube-scheduler kube-apiserver etcd; do stop "$name" TERM; done
  if [ -e "$dir/docker" ]; then "$daemon" down "$dir/docker"; fi
  for mount in $(awk -v dir="$dir/" 'index($2, dir) == 1 { print $2 }' /proc/mounts | sort -r); do
    umount "$mount" || true
  done
  if [ -f "$dir/places" ]; then xargs rm -rf --one-file-system <"$dir/places"; fi
  rm -rf --one-file-system "$dir"
}

case $command in
  prepare) prepare "${3:?the folder of the programs}" ;;
  start | stop)
    shift 2
    for name; do "$command" "$name"; done
    ;;
  down) down ;;
  *)
    sed -n '2,/^set/{/^#/p}' "$0" >&2
    exit 2
    ;;
esac
