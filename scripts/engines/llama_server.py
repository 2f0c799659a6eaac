"""llama.cpp's own HTTP server, from the package xllamacpp: llama_server.py MODEL PORT [NAME=VALUE ...]

NAME is a field of llama.cpp's common_params: n_parallel=2 embedding=true endpoint_metrics=true
"""

import json
import signal
import sys

import xllamacpp

model, port, *more = sys.argv[1:]
params = xllamacpp.CommonParams()
params.model.path = model
params.model_alias = ["tiny"]
params.hostnames = ["127.0.0.1"]
params.port = int(port)
params.n_ctx = 65536
params.n_parallel = 2
params.warmup = False
params.cpuparams.n_threads = 1
for setting in more:
    name, value = setting.split("=", 1)
    setattr(params, name, json.loads(value))
server = xllamacpp.Server(params)
# llama.cpp writes its log piece by piece into the same pipe, so this line has to begin on a fresh one.
print(f"\nlistening at {server.listening_address}", flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
signal.pause()
