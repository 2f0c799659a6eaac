import { appendFileSync } from 'node:fs';
import { runSimulator } from '../../../src/simulator/index.ts';

/**
 * Stands in for the program `vllm` with its two commands, since `vllm preload` needs CUDA: `preload` holds weights as that
 * of 0.32 does, and `serve` is the simulator, which writes into the file VLLM_LOADED_FROM whether it mapped them. With
 * VLLM_PRELOAD_FAILS set, `preload` ends as it does on a CPU.
 */
const [command, ...args] = process.argv.slice(2);
const note = (text: string) => appendFileSync(process.env.VLLM_LOADED_FROM!, `${text}\n`);

const PRELOAD_HELP = `usage: vllm preload --model <model> [options]

options:
  --model MODEL
  --load-format LOAD_FORMAT
  --max-model-len MAX_MODEL_LEN
  --weight-cache-socket-dir WEIGHT_CACHE_SOCKET_DIR
`;

if (command === 'serve') {
  if (!args[0]?.startsWith('--help')) note(args.includes('ipc_cache') ? 'mapped' : 'disk');
  await runSimulator(args);
} else if (args.some((arg) => arg.startsWith('--help'))) {
  process.stdout.write(PRELOAD_HELP);
} else if (process.env.VLLM_PRELOAD_FAILS) {
  process.stderr.write(
    "vllm.model_executor.model_loader.weight_cache.protocol.UnsupportedPlatformForIPCError: platform 'cpu' does not support CUDA IPC weight sharing; only CUDA and ROCm are supported.\n",
  );
  process.exitCode = 1;
} else {
  note(`preload ${args.join(' ')}`);
  process.stdout.write(
    'Loading safetensors checkpoint shards: 100% Completed | 2/2 [00:01<00:00,  1.0s/it]\n',
  );
  process.stdout.write(
    `(pid=${process.pid}) INFO 11-28 09:08:51 [preload.py:390] ===== Weight cache daemon READY: node 0/1 serving 1 local rank(s) x 1 role(s) in /tmp =====\n`,
  );
  setInterval(() => {}, 60_000);
}
