/**
 * The variables of the launcher's own environment that a worker process gets: those that programs need to run at all,
 * and none that configures the launcher or holds a key. The pool gives all others, as for a container.
 */
const PASSED_ON =
  /^(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_.*|TZ|TMPDIR|TEMP|TMP|XDG_.*|LD_LIBRARY_PATH|LD_PRELOAD|DYLD_.*|VIRTUAL_ENV|CONDA_.*|PYTHON.*|NODE_EXTRA_CA_CERTS|SSL_CERT_.*|REQUESTS_CA_BUNDLE|CUDA_HOME|CUDA_PATH|NVIDIA_.*|ROCM_PATH|HF_HOME|HF_ENDPOINT|HF_HUB_.*|(?:http|https|no|all)_proxy|(?:HTTP|HTTPS|NO|ALL)_PROXY|LOG_LEVEL)$/;

export function passedOn(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => PASSED_ON.test(name)));
}
