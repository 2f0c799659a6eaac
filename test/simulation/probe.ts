import type { Oracle } from './oracle.ts';
import type { JobPlan, WorkerPlan } from './plan.ts';

/** Every probe takes so long that as many as there are slots must all run at once, ms. */
export const PROBE_MS = 20_000;

export function isProbe(jobId: string): boolean {
  return jobId.startsWith('probe');
}

/** A job for every slot. */
export function probes(workers: readonly WorkerPlan[], at: number): JobPlan[] {
  const pools = workers.flatMap(({ configId, capacity }) => Array<typeof configId>(capacity).fill(configId));
  return pools.map((configId, index) => ({
    id: `probe${index + 1}`,
    at,
    configId,
    jobType: 'chat_completion',
    priority: 0,
    maxAttempts: 1,
    deadlineSeconds: null,
    cancelAfterMs: null,
    waits: false,
    asksAlias: false,
    readers: null,
    prompt: { content: 'hello', maxTokens: 1, stop: null, thinks: false },
  }));
}

/** A worker that did not run one in each of its slots, or null. */
export function idleSlot(workers: readonly WorkerPlan[], { exchanges }: Oracle): string | null {
  for (const { name, capacity } of workers) {
    const ran = exchanges.filter(({ worker, jobId }) => worker === name && isProbe(jobId)).length;
    if (ran !== capacity) return `${name} ran ${ran} jobs in ${capacity} slots`;
  }
  return null;
}
