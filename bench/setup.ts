import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { hasRedis } from './durable/redis.ts';

/** Where BullMQ is put: a thing to compare with, not a dependency. */
export const PEERS = fileURLToPath(new URL('./.peers', import.meta.url));
const PACKAGES = ['bullmq@6.7.0', 'ioredis@5'];

export function hasPeers(): boolean {
  return hasRedis() && existsSync(`${PEERS}/node_modules/bullmq`);
}

/** `npm run bench:setup`: installs what the durable jobs are compared with: Redis (Debian's package) and BullMQ. */
function setUp(): void {
  if (!hasRedis()) {
    run('apt-get', ['update']);
    run('apt-get', ['install', '-y', '--no-install-recommends', 'redis-server']);
  }
  run('npm', ['install', '--prefix', PEERS, '--no-save', ...PACKAGES]);
  console.log('Redis and BullMQ are ready: npm run bench -- --only P3');
}

function run(command: string, args: string[]): void {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit' });
  if (status === 0) return;
  console.error(`${command} ${args.join(' ')} failed${error ? `: ${error.message}` : ''}`);
  process.exit(1);
}

if (import.meta.main) setUp();
