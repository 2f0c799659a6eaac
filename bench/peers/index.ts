import { spawn } from 'node:child_process';
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../test/support/ports.ts';
import { killGroup } from '../../test/support/processes.ts';
import { untilExit } from '../durable/peer-server.ts';
import { descendantsOf } from '../machine.ts';
import { dynamo } from './dynamo.ts';
import { liteLlm } from './litellm.ts';
import { nginx } from './nginx.ts';
import type { Peer, Place } from './peer.ts';
import { productionStack, sglangRouter, vllmRouter } from './routers.ts';

/** A peer that runs. */
export interface RunningPeer {
  url: string;
  /** Returns the ids of all its processes. */
  pids(): number[];
  stop(): void;
}

/** From the leanest on. */
export const ALL_PEERS: Peer[] = [nginx, vllmRouter, sglangRouter, productionStack, dynamo, liteLlm];

export function isInstalled({ program }: Peer): boolean {
  return existsSync(program);
}

/** How long a peer may take until it answers, ms: Python's imports take most of it. */
const START_MS = 120_000;

/** @throws Error with the last lines of its output when it does not answer a chat in time */
export async function startPeer(
  peer: Peer,
  engine: Pick<Place, 'engineUrl' | 'interTokenMs'>,
): Promise<RunningPeer> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-peer-'));
  const port = await freePort();
  const log = openSync(join(folder, 'log'), 'a');
  const children = peer
    .commands({ ...engine, port, metricsPort: await freePort(), folder })
    .map(({ program, args, env }) =>
      spawn(program, args, {
        cwd: folder,
        detached: true,
        stdio: ['ignore', log, log],
        env: { ...process.env, ...env },
      }),
    );
  closeSync(log);
  const stop = untilExit(() => {
    for (const child of children) killGroup(child.pid);
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  });
  const url = `http://127.0.0.1:${port}`;
  const deadline = performance.now() + START_MS;
  while (!(await answersChat(url))) {
    if (performance.now() > deadline || children.some(({ exitCode }) => exitCode !== null)) {
      const said = readFileSync(join(folder, 'log'), 'utf8').slice(-2000);
      stop();
      throw new Error(`${peer.name} answers no chat. It said:\n${said}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  return { url, pids: () => children.flatMap(({ pid }) => [pid!, ...descendantsOf(pid!)]), stop };
}

async function answersChat(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'tiny', max_tokens: 1, messages: [{ role: 'user', content: 'Go.' }] }),
      signal: AbortSignal.timeout(5000),
    });
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false;
  }
}
