import { Random } from '../support/random.ts';
import type { ControlConnection } from './control-connection.ts';
import type { ProcessTimeline } from './process-timeline.ts';

/** Share of dispatches of which another worker says, too, that it failed them. */
const FORGED_SHARE = 0.03;

/** Workers that now and then claim a job that another one was given. */
export class Forger {
  readonly #random: Random;
  readonly #timeline: ProcessTimeline;
  readonly #say: (by: ControlConnection, text: string) => void;
  readonly #connections: ReadonlySet<ControlConnection>;

  constructor(
    seed: number,
    timeline: ProcessTimeline,
    connections: ReadonlySet<ControlConnection>,
    say: (by: ControlConnection, text: string) => void,
  ) {
    this.#random = new Random(seed, 'forger');
    this.#timeline = timeline;
    this.#connections = connections;
    this.#say = say;
  }

  /** A frame left for a worker. */
  sent(to: ControlConnection, text: string): void {
    if (!text.startsWith('{"type":"job"') || this.#random.next() >= FORGED_SHARE) return;
    const { job_id, fence_token } = JSON.parse(text) as { job_id: string; fence_token: number };
    const forged = { type: 'job_error', job_id, fence_token, error: 'forged', retryable: false };
    this.#timeline.after(this.#random.int(1, 2000), () => {
      const thief = [...this.#connections].find((connection) => isOther(connection, to));
      if (thief) this.#say(thief, JSON.stringify(forged));
    });
  }
}

/** Whether it is the connection of another worker. */
function isOther(connection: ControlConnection, than: ControlConnection): boolean {
  const [one, other] = [connection.load(), than.load()];
  if (connection.isGivenUp || one === null || other === null) return false;
  return one.worker_id !== other.worker_id;
}
