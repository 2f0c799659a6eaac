import { dumpDatabases } from './database-dump.ts';
import { until } from './poll.ts';
import { freePort } from './ports.ts';
import type { Child } from './processes.ts';
import { cli, stateFolder } from './road.ts';

/** A process of `worker-vllm queue` with a journal. */
export interface JournalProcess {
  process: Child;
  url: string;
  port: number;
  stateDir: string;
}

/** Starts a process that becomes the owner, or follows; not waited for. Give those of an earlier one to start it again. */
export async function startMember(
  journal: string,
  again: { port?: number; stateDir?: string; follows?: boolean; env?: NodeJS.ProcessEnv } = {},
): Promise<JournalProcess> {
  const port = again.port ?? (await freePort());
  const stateDir = again.stateDir ?? stateFolder();
  const follow = again.follows === false ? [] : ['--follow'];
  const process = cli(
    ['queue', '--port', String(port), '--state', stateDir, '--journal', journal, ...follow],
    again.env,
  );
  return { process, url: `http://127.0.0.1:${port}`, port, stateDir };
}

export async function untilOwner({ process }: JournalProcess): Promise<void> {
  await process.waitForLine(/listening at/);
}

interface Health {
  role?: string;
  owner: string | null;
  entry: number;
  behind_seconds: number;
}

export async function healthOf({ url }: JournalProcess): Promise<Health> {
  return (await (await fetch(`${url}/health`)).json()) as Health;
}

/** Waits until a process follows, and has everything up to an entry. */
export async function untilFollows(member: JournalProcess, entry = 0): Promise<void> {
  await until(async () => {
    const health = await healthOf(member);
    return health.role === 'follower' && health.entry >= entry;
  }, `a process follows up to entry ${entry}`);
}

export function dumpOf({ stateDir }: JournalProcess): ReturnType<typeof dumpDatabases> {
  return dumpDatabases(`${stateDir}/data`);
}

/** Submits stored jobs one after another until told to stop. @returns the ids that were acknowledged */
export async function submitOn(url: () => string, isOver: () => boolean, name: string): Promise<string[]> {
  const acknowledged: string[] = [];
  for (let n = 0; !isOver(); n += 1) {
    const id = `${name}-${n}`;
    const body = JSON.stringify({
      id,
      job_type: 'chat_completion',
      config_id: 'cfg',
      payload: { messages: [] },
    });
    try {
      const { status } = await fetch(`${url()}/api/jobs`, { method: 'POST', body });
      if (status === 201) acknowledged.push(id);
    } catch {
      // The connection broke, and with it the answer.
    }
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  return acknowledged;
}

/** Returns which of these jobs a queue does not know. */
export async function unknownJobs(url: string, ids: string[]): Promise<string[]> {
  const found = await Promise.all(
    ids.map(async (id) => [id, (await fetch(`${url}/api/jobs/${id}`)).status] as const),
  );
  return found.filter(([, status]) => status !== 200).map(([id]) => id);
}
