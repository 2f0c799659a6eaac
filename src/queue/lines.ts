import type { ConfigStart } from '../fleet/rpc.ts';
import type { WaitingLineView } from './rpc.ts';
import type { Core } from './state/state.ts';
import { rejectOverdue, waitingLines } from './verbs/admission.ts';

/** Callers that wait for a slot, and the workers that the scheduler starts for them. */
export class Lines {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /** By the model that they wait for. */
  all(): WaitingLineView[] {
    return waitingLines(this.#core);
  }

  /** Some wait for a worker that is started: what the fleet object says of that is theirs to hear. */
  get awaitStart(): boolean {
    return this.#core.starts.all().length > 0 && this.all().some(({ start }) => start !== null);
  }

  /** What the fleet object tells of the configs that the scheduler starts workers for: for some the wait may be over. */
  hearStarts(starts: readonly ConfigStart[]): void {
    if (!this.#core.starts.replace(starts)) return;
    this.#core.memory.waiting.nextRejection.forget();
    rejectOverdue(this.#core);
  }
}
