import type { JobEvent } from '../events/event.ts';
import type { Projection } from '../events/projection.ts';
import type { Core } from '../state/state.ts';

/** Tells filters of stored jobs that a worker had and that failed, were cancelled or expired. */
export class WithoutSuccess implements Projection {
  readonly #core: Pick<Core, 'tellEnded'>;

  constructor(core: Pick<Core, 'tellEnded'>) {
    this.#core = core;
  }

  after({ job, ending }: JobEvent): void {
    if (ending === undefined || ending.state === 'succeeded' || job.mode !== 'stored') return;
    // The first attempt has the first fence token.
    if (job.fence_token > 0) this.#core.tellEnded?.(job, ending);
  }
}
