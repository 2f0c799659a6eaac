import type { Mirror } from '../../aliases/alias.ts';
import { withTarget } from '../../aliases/rename.ts';
import { fraction } from '../../aliases/resolve.ts';
import { idOf } from '../../protocol/ids.ts';
import { bounds, fitsUtf8, payloadText, reservedSlots } from '../../protocol/index.ts';
import type { JobEvent } from '../events/event.ts';
import { emit, type Projection } from '../events/projection.ts';
import type { WaitingJob } from '../job.ts';
import type { MirrorCount } from '../rpc.ts';
import { livePool } from '../state/pools.ts';
import type { Core } from '../state/state.ts';
import { usableSlots } from '../state/worker.ts';

/** Copies give way to everything else. */
const PRIORITY = -10;
/** A copy that has no answer after this many ms is given up. */
const DEADLINE_MS = 600_000;
/** The most copies that wait to be stored; beyond it they are dropped. */
const MOST_OFFERED = 100;

interface Offered {
  alias: string;
  model: string;
  job_type: string;
  payload: string;
}

/**
 * Sends copies of requests for an alias to its mirror's model, measures their answers as those of any job and throws
 * them away. The copy is stored after the request was answered to the gateway, so nothing of it delays or fails the
 * request. It is nobody's: no tenant, no limit. One for which no worker is free is dropped, and counted.
 */
export class Mirrors implements Projection {
  readonly #core: Core;
  #offered: Offered[] = [];
  /** Copies that have ended, whose rows are to be deleted. */
  #over: { seq: number; id: string }[] = [];
  readonly #counts = new Map<string, MirrorCount>();

  constructor(core: Core) {
    this.#core = core;
  }

  on({ job, step, isFirst }: JobEvent): void {
    if (step === 'dispatched' && job.mode === 'waiting' && isFirst) this.#sample(job);
  }

  after({ job, step, ending }: JobEvent): void {
    const { mirrors: alias } = job.extras;
    if (alias === undefined || job.mode !== 'stored') return;
    if (step !== 'settled' && step !== 'cancelled' && step !== 'expired') return;
    this.#count(alias, job.model ?? '', ending?.state === 'succeeded' ? 'succeeded' : 'failed');
    this.#over.push({ seq: job.seq, id: job.id });
  }

  get dueAt(): number | null {
    return this.#offered.length + this.#over.length > 0 ? this.#core.now() : null;
  }

  /** Everything that is due is written, so it goes into a commit. */
  get writeAt(): number | null {
    return this.dueAt;
  }

  due(): void {
    for (const offered of this.#offered.splice(0)) this.#store(offered);
    const over = this.#over.splice(0);
    if (over.length === 0) return;
    this.#core.projections.forget(over);
    this.#core.stored.remove(over);
  }

  /** Returns how many requests were copied since the object started, by how it ended. */
  counts(): MirrorCount[] {
    return [...this.#counts.values()];
  }

  #sample(job: WaitingJob): void {
    const { alias } = job.extras;
    if (alias === undefined || job.earlier !== null || job.begun !== null) return;
    const mirror = this.#core.aliases.mirrorOf(alias.name);
    if (mirror === undefined || fraction(`mirror\0${job.id}`) >= mirror.share) return;
    const payload = payloadFor(job, mirror);
    if (payload === null || this.#offered.length >= MOST_OFFERED) {
      this.#count(alias.name, mirror.model, 'dropped');
      return;
    }
    this.#offered.push({ alias: alias.name, model: mirror.model, job_type: job.job_type, payload });
  }

  #store({ alias, model, job_type, payload }: Offered): void {
    const core = this.#core;
    const choice = livePool(core, model);
    const configId = choice?.kind === 'pool' ? choice.config_id : null;
    if (configId === null || !hasRoom(core, configId)) {
      this.#count(alias, model, 'dropped');
      return;
    }
    const now = core.now();
    const row = core.stored.insert({
      id: idOf('job', core.settings.queue_id),
      job_type,
      config_id: configId,
      priority: PRIORITY,
      max_attempts: 1,
      payload,
      payload_file: null,
      created_at: now,
      deadline_at: now + DEADLINE_MS,
      tenant: null,
      token_name: null,
      stream: 0,
      extras: { mirrors: alias },
      model,
    });
    emit(core, row, 'submitted', `a copy of a request for the alias ${alias}`);
  }

  #count(alias: string, model: string, outcome: 'succeeded' | 'failed' | 'dropped'): void {
    const key = `${alias}\0${model}`;
    const counts = this.#counts.get(key) ?? { alias, model, succeeded: 0, failed: 0, dropped: 0 };
    counts[outcome] += 1;
    this.#counts.set(key, counts);
  }
}

/** Says whether a copy begins at once, beside the slots that are kept for callers. */
function hasRoom({ workers, stored }: Core, configId: string): boolean {
  let [usable, busy] = [0, stored.pending.ofPool(configId)];
  for (const worker of workers.all().filter(({ session }) => session.config_id === configId)) {
    usable += usableSlots(worker);
    busy += worker.running.size;
  }
  return busy < usable - reservedSlots(usable);
}

/** Returns the request as a stored job asks for it of the mirror's model; null if it is too long or no text. */
function payloadFor({ job_type, payload, model }: WaitingJob, mirror: Mirror): string | null {
  if (model === null || payload.byteLength > bounds.INLINE_BYTES) return null;
  const text = payloadText(withTarget(job_type, payload, model, mirror.model));
  return text !== null && fitsUtf8(text, bounds.INLINE_BYTES) ? text : null;
}
