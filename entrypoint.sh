#!/bin/sh
# Entry of a container: runs the supervisor, which runs the engine and the worker.
#
# As PID 1 a process must also reap orphans, and Node cannot wait for children that are not its own.
# So tini does it where it is installed, else this shell stays and waits; elsewhere nothing is needed.

root=$(dirname "$(readlink -f "$0")")
node=node
if [ -x "$root/node_modules/node/bin/node" ]; then node=$root/node_modules/node/bin/node; fi
set -- "$node" "$root/bin/worker-vllm.js" supervise "$@"

[ $$ -eq 1 ] || exec "$@"
if command -v tini >/dev/null 2>&1; then exec tini -- "$@"; fi

"$@" &
child=$!
trap 'kill -TERM "$child" 2>/dev/null' TERM HUP
trap 'kill -INT "$child" 2>/dev/null' INT
# A signal interrupts wait; the child is over only once wait has taken it away.
while :; do
  wait "$child"
  code=$?
  kill -0 "$child" 2>/dev/null || exit "$code"
done
