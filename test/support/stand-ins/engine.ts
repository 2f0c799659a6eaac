import { spawn } from 'node:child_process';
import { createServer } from 'node:http';

/**
 * An engine that misbehaves on request, started as `vllm serve` is: healthy after `--load-ms`; with
 * `--fail TEXT` it ends while loading, with `--complain TEXT` it says so and goes on; it spawns a child that outlives it, as vLLM's own processes do.
 * `POST /die` ends it with code 0, as vLLM ends when its engine process dies.
 */
const flag = (name: string) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? undefined : process.argv[at + 1];
};
const say = (text: string) => process.stdout.write(`${text}\n`);

say('(APIServer pid=1) INFO 11-21 09:08:51 [x.py:1] Initializing a V1 LLM engine');
process.stderr.write('\rLoading safetensors checkpoint shards:  50% Completed');
process.stderr.write('\rLoading safetensors checkpoint shards: 100% Completed\n');
say(
  `environment: ${
    Object.keys(process.env)
      .filter((name) => name.startsWith('VLLM_'))
      .join(' ') || 'clean'
  }`,
);

const child = spawn('sleep', ['1000'], { stdio: 'ignore' });
say(`engine ${process.pid} and its child ${child.pid}`);

process.on('SIGTERM', () => {
  say('engine got SIGTERM');
  if (process.argv.includes('--ignore-sigterm')) return;
  process.exit(0);
});

const complaint = flag('--complain');
if (complaint !== undefined) process.stderr.write(`Traceback\n${complaint}\n`);

const failure = flag('--fail');
if (failure !== undefined) {
  process.stderr.write(`Traceback\n${failure}\n`);
  process.exit(1);
}

setTimeout(
  () => {
    createServer((request, response) => {
      if (request.url === '/die') process.exit(0);
      response.end();
    }).listen(Number(flag('--port')), flag('--host'), () => say('engine listens'));
  },
  Number(flag('--load-ms') ?? 0),
);
