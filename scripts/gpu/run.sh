#!/bin/sh
# Measures the road over an engine on a GPU: see measure.ts. It needs Python with torch and transformers, and nothing from
# the network: Node, our package and what `transformers serve` needs lie in this folder (node scripts/gpu/pack.ts).
#
#   sh run.sh [--device cpu] [--seconds 20] [--out gpu.json]
#
# PYTHON names another Python than python3.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
"$python" -c 'import torch, transformers' 2>/dev/null || {
  echo "$python has no torch or no transformers: set PYTHON to one that has both." >&2
  exit 2
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" - "$here" "$work" <<'END'
import lzma, shutil, sys, tarfile
here, work = sys.argv[1:]
with lzma.open(f"{here}/node.xz") as packed, open(f"{work}/node", "wb") as program:
    shutil.copyfileobj(packed, program)
with tarfile.open(f"{here}/package.tgz") as package:
    package.extractall(work)
END
chmod 755 "$work/node"
"$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --target "$work/site" "$here"/wheels/*.whl || {
  echo "The wheels are for another Python: node scripts/gpu/pack.ts --python 3.N packs for $("$python" --version)." >&2
  exit 2
}
export PYTHONPATH="$work/site:$here${PYTHONPATH:+:$PYTHONPATH}" PATH="$work:$PATH"
"$work/node" "$here/measure.ts" --work "$work" --python "$(command -v "$python")" "$@" &
node=$!
trap 'kill -TERM "$node" 2>/dev/null' INT TERM HUP
# A signal ends a wait before the program has ended.
while kill -0 "$node" 2>/dev/null; do
  code=0
  wait "$node" || code=$?
done
exit "$code"
