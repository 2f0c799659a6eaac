#!/bin/bash
# Compiles Kubernetes 1.20 out of Debian's source package, the last one that is whole: for tests on a machine that
# reaches Debian's packages and no release, no registry. Debian 12 as root is needed, and 1.6 GB while it lasts.
#
#   build.sh DIR     leaves etcd installed and the programs in DIR/bin (200 MB); what is there already is kept. One
#                    core for five minutes.
set -euo pipefail

dir=$(readlink -m "${1:?the folder for the programs}")
programs="kube-apiserver kube-controller-manager kube-scheduler kubelet pause"
work=$dir/work
tree=$work/go/src/k8s.io/kubernetes
apt="apt-get -o DPkg::Lock::Timeout=300 -qq"

mkdir -p "$dir/bin"
missing=
for program in $programs; do [ -x "$dir/bin/$program" ] || missing="$missing $program"; done
packages=
for package in etcd-server ${missing:+golang-1.19-go}; do
  dpkg -s "$package" >/dev/null 2>&1 || packages="$packages $package"
done
if [ -n "$packages" ]; then
  # Somebody else may be at it.
  $apt update || { sleep 20; $apt update; }
  # Where there is an init system it would start an etcd of its own.
  ln -sf /dev/null /etc/systemd/system/etcd.service 2>/dev/null || true
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive $apt install -y --no-install-recommends $packages >/dev/null
fi
[ -n "$missing" ] || exit 0

# Lists of packages of our own: the machine's have no sources. _apt, which would fetch otherwise, may not read here.
rm -rf "$work"
mkdir -p "$work/apt/lists/partial" "$tree"
mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' | awk '$2 == "bookworm" { print $1; exit }')
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main" >"$work/apt/sources.list"
own=(-o "Dir::Etc::SourceList=$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
  -o "Dir::State::Lists=$work/apt/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root)
apt-get -qq "${own[@]}" update
(cd "$work/apt" && apt-get -qq "${own[@]}" source --download-only kubernetes)
tar --extract --directory "$tree" --strip-components 1 --file "$work"/apt/kubernetes_*.orig.tar.*

cd "$tree"
# Its OpenAPI document is generated in upstream's build and not in the package: the API server goes without.
sed -i -E '/^\t(extensionsapiserver|openapinamer|aggregatorscheme|generatedopenapi) "/d
  /^\tgenericConfig\.OpenAPIConfig(\.Info\.Title)? = /d' cmd/kube-apiserver/app/server.go
sed -i -E '/^\tif openAPIConfig == nil \{$/,/^\t\}$/d
  s/Authenticator, openAPIConfig\.SecurityDefinitions, err =/Authenticator, _, err =/' pkg/kubeapiserver/options/authentication.go
# reflect2 reaches into Go's iterator of maps, which changed in Go 1.18: it overwrites memory. Upstream's mend in 1.0.2.
sed -i -e 's/^func mapiterinit(.*/func mapiterinit(rtype unsafe.Pointer, m unsafe.Pointer, it *hiter)/' \
  -e 's,^\t// rest fields are ignored,\tpointers [6]unsafe.Pointer\n\tnumbers [4]uintptr,' \
  vendor/github.com/modern-go/reflect2/unsafe_link.go
sed -i -e 's/^\treturn &UnsafeMapIterator{$/\tit := new(hiter)\n\tmapiterinit(type2.rtype, *(*unsafe.Pointer)(obj), it)\n&/' \
  -e 's/mapiterinit(type2.rtype.*),$/it,/' vendor/github.com/modern-go/reflect2/unsafe_map.go
# The kubelet leaves the kernel's settings of the machine as they are, and asks for no place before other processes
# when memory ends, which containers without CAP_SYS_RESOURCE cannot have.
sed -i 's/b := KernelTunableModify/b := KernelTunableWarn/' pkg/kubelet/cm/container_manager_linux.go
sed -i -E 's/^(\t(defaultSandboxOOMAdj|guaranteedOOMScoreAdj) +int = )-[0-9]+/\10/' \
  pkg/kubelet/dockershim/docker_sandbox.go pkg/kubelet/qos/policy.go
# Holds the network of a pod; upstream's is in C.
mkdir cmd/pause
cat >cmd/pause/main.go <<'GO'
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	<-ended
}
GO

version=
for package in component-base/version client-go/pkg/version; do
  names=k8s.io/kubernetes/vendor/k8s.io/$package
  version="$version -X $names.gitVersion=v1.20.2 -X $names.gitMajor=1 -X $names.gitMinor=20"
done
# One compiler, behind everybody else; without the clouds' SDKs, a third of all code.
export GOROOT=/usr/lib/go-1.19 GOPATH=$work/go GOCACHE=$work/cache GOTMPDIR=$work GO111MODULE=off GOFLAGS= CGO_ENABLED=0
for program in $missing; do
  echo "compiling $program"
  nice -n 19 "$GOROOT/bin/go" build -p 1 -tags providerless -ldflags "-s -w $version" -o "$work/$program" "./cmd/$program"
  mv "$work/$program" "$dir/bin/$program"
done
cd /
rm -rf "$work"
