import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../../test/support/poll.ts';
import { freePort } from '../../test/support/ports.ts';

export interface RedisServer {
  url: string;
  stop(): void;
}

export function hasRedis(): boolean {
  return spawnSync('redis-server', ['--version']).status === 0;
}

/** Redis that syncs every write to disk before it answers, as the queue does. */
export async function startRedis(): Promise<RedisServer> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-redis-'));
  const port = await freePort();
  const flags = ['--appendonly', 'yes', '--appendfsync', 'always', '--save', '', '--dir', folder];
  const child = spawn('redis-server', ['--port', String(port), ...flags], { stdio: 'ignore' });
  await until(() => answers(port), 'Redis listens');
  return {
    url: `redis://127.0.0.1:${port}`,
    stop: () => {
      child.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
