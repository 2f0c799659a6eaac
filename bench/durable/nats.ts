import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../../test/support/poll.ts';
import { freePort } from '../../test/support/ports.ts';
import { answers, PEERS, type PeerServer, untilExit } from './peer-server.ts';

const PROGRAM = `${PEERS}/nats/bin/nats-server`;

export function hasNats(): boolean {
  return existsSync(PROGRAM) && existsSync(`${PEERS}/node_modules/@nats-io/jetstream`);
}

/** NATS with JetStream that syncs every write to disk before it answers, as the queue does. */
export async function startNats(): Promise<PeerServer> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-nats-'));
  const port = await freePort();
  const config = join(folder, 'nats.conf');
  writeFileSync(
    config,
    `listen: "127.0.0.1:${port}"\njetstream { store_dir: "${folder}", sync_interval: always }\n`,
  );
  const child = spawn(PROGRAM, ['--config', config], { stdio: 'ignore' });
  const stop = untilExit(() => {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  await until(() => answers(port), 'NATS listens');
  return {
    url: `nats://127.0.0.1:${port}`,
    pid: child.pid!,
    stop,
  };
}
