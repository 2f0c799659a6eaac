import { randomUUID } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { sleep, withRetries } from '../process/clock.ts';
import { HttpStatusError, isTransient, reasonOf, type Web } from '../process/http.ts';
import type { Log } from '../process/log.ts';

/**
 * Returns a random name of this machine, made by its first worker and stored in a file: machines are given the same
 * host name more often than operators know. Returns null if nothing can be stored.
 * @param path the file; null: there is no folder for it
 */
export async function machineId(path: string | null): Promise<string | null> {
  if (path === null) return null;
  try {
    await mkdir(dirname(path), { recursive: true });
    // Another worker of this machine may be writing the file at the same time: the first write counts.
    await writeFile(path, `${randomUUID()}\n`, { flag: 'wx' }).catch(() => {});
    return (await readFile(path, 'utf8')).trim().slice(0, 64) || null;
  } catch {
    return null;
  }
}

/** The worker asks the platform for at most this long, ms. */
const LIMIT_MS = 30_000;
const FIRST_PAUSE_MS = 1000;
/** The worker waits this long for the end of its machine once the platform has agreed to end it, ms. */
const END_MS = 60_000;

interface Platform {
  name: string;
  url: string;
  key: string;
}

/**
 * Asks the platform to terminate the machine that this worker runs on, if the platform gives each machine a key to
 * itself: RunPod (docs, "pod environment variables") and Vast (docs, "predefined variables"). These platforms restart a
 * container that has ended, and continue to bill it.
 * @returns when the machine should have ended long ago, or at once if the platform cannot be asked
 */
export async function terminateOwnMachine(env: NodeJS.ProcessEnv, web: Web, log: Log): Promise<void> {
  const platform = platformOf(env);
  if (!platform) return;
  const { name, url, key } = platform;
  const policy = { clock: web.clock, limitMs: LIMIT_MS, firstPauseMs: FIRST_PAUSE_MS, mayPass: isTransient };
  try {
    await withRetries(policy, async (signal) => {
      const response = await web.fetch(url, {
        method: 'DELETE',
        headers: { authorization: `Bearer ${key}` },
        signal,
      });
      await response.body?.cancel();
      if (!response.ok && response.status !== 404) throw new HttpStatusError(response.status);
    });
  } catch (error) {
    log.error(
      { problem: reasonOf(error) },
      `${name} did not terminate this machine: it may go on costing money`,
    );
    return;
  }
  log.warn({}, `${name} was asked to terminate this machine`);
  await sleep(web.clock, END_MS);
}

function platformOf(env: NodeJS.ProcessEnv): Platform | null {
  const { RUNPOD_POD_ID: pod, RUNPOD_API_KEY: podKey } = env;
  if (pod && podKey) {
    return { name: 'RunPod', url: `https://api.runpod.io/v2/pods/${encodeURIComponent(pod)}`, key: podKey };
  }
  const { CONTAINER_ID: id, CONTAINER_API_KEY: key } = env;
  if (!id || !key) return null;
  return { name: 'Vast', url: `https://console.vast.ai/api/v0/instances/${encodeURIComponent(id)}/`, key };
}
