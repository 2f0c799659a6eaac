import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../../test/support/poll.ts';
import { freePort } from '../../test/support/ports.ts';
import { answers, PEERS, type PeerServer, untilExit } from './peer-server.ts';

export function hasRedis(): boolean {
  return hasRedisServer() && existsSync(`${PEERS}/node_modules/bullmq`);
}

export function hasRedisServer(): boolean {
  return spawnSync('redis-server', ['--version']).status === 0;
}

/** Redis that syncs every write to disk before it answers, as the queue does. */
export async function startRedis(): Promise<PeerServer> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-redis-'));
  const port = await freePort();
  const flags = ['--appendonly', 'yes', '--appendfsync', 'always', '--save', '', '--dir', folder];
  const child = spawn('redis-server', ['--port', String(port), ...flags], { stdio: 'ignore' });
  const stop = untilExit(() => {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  await until(() => answers(port), 'Redis listens');
  return {
    url: `redis://127.0.0.1:${port}`,
    pid: child.pid!,
    stop,
  };
}
