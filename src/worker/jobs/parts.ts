import { bounds, type JobRef, type Renew } from '../../protocol/index.ts';
import type { RunningJob } from '../run/running-job.ts';

/**
 * Adds to the renewals of leases the parts that stored answers have got since the last renewal: if the worker is lost,
 * only what it made since then is lost too. Parts for which there is no room go with the next renewal.
 */
export function withParts(refs: readonly JobRef[], runs: (ref: JobRef) => RunningJob | null): Renew['jobs'] {
  let room = bounds.PARTS_CHARACTERS;
  return refs.map(({ job_id, fence_token }) => {
    const ref = { job_id, fence_token };
    const running = runs(ref);
    const assembly = running?.assembly ?? null;
    const next = assembly?.part() ?? null;
    if (running === null || assembly === null || next === null) return ref;
    const { part, characters } = next;
    room -= characters;
    if (room < 0) return ref;
    assembly.told(part, characters);
    const timing = part.after === 0 ? running.timing() : undefined;
    return { ...ref, part, ...(timing && { timing }) };
  });
}
