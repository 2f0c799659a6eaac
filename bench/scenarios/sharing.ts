import type { Limits } from '../../src/protocol/index.ts';
import { settle } from '../../test/support/limited-requests.ts';
import { QueueHarness } from '../../test/support/queue-harness.ts';
import { type Effort, scaled } from '../effort.ts';
import type { Figure } from '../report.ts';

/** Requests that wait for a slot all the time. */
const WAITING = 1000;
const REQUESTS = 20_000;
/** Between two looks at the clock, and in a second of the queue's time. */
const AT_ONCE = 100;
const A_SECOND = 10_000;
/** So far away that they keep nobody. */
const LIMITS: Limits = { running: 1e6, requests_per_minute: 1e9, tokens_per_minute: 1e12 };

interface Load {
  tenants: number;
  limits: Limits | null;
}

/**
 * P8: processor time of a request in the rules of a queue (it is asked for, is given to a worker, ends) with many tenants
 * that wait against one, and of a token with limits against one without, in turns. The sides have equally many waiting.
 */
export async function sharing(effort: Effort): Promise<Figure[]> {
  const plain = new Line({ tenants: 1, limits: null });
  const many = new Line({ tenants: WAITING, limits: null });
  const limited = new Line({ tenants: 1, limits: LIMITS });
  const lines = [plain, many, limited];
  const requests = scaled(REQUESTS, effort);
  for (const line of lines) line.run(requests);
  for (const line of lines) line.written = 0;
  const rounds: Record<'plain' | 'many' | 'limited', number[]> = { plain: [], many: [], limited: [] };
  for (let round = 0; round < effort.rounds; round++) {
    rounds.plain.push(plain.run(requests));
    rounds.many.push(many.run(requests));
    rounds.limited.push(limited.run(requests));
  }
  const over = (own: number[]) => own.map((µs, round) => µs / rounds.plain[round]!);
  const figure = (name: string, unit: string, goal: number | null, own: number[]): Figure => ({
    group: 'P8',
    name,
    unit,
    goal,
    rounds: own,
  });
  return [
    figure(`rules of a queue, ${WAITING} tenants that wait ÷ one`, '×', 1.1, over(rounds.many)),
    figure(`what ${WAITING} tenants used is written, a second`, 'ms', null, [
      (many.written * A_SECOND) / (requests * effort.rounds * 1000),
    ]),
    figure('rules of a queue, a token with limits ÷ without', '×', null, over(rounds.limited)),
    figure('rules of a queue, a request', 'µs', null, rounds.plain),
    figure(
      'rules of a queue, what limits add to a request',
      'µs',
      null,
      rounds.limited.map((µs, round) => µs - rounds.plain[round]!),
    ),
  ];
}

/** A queue with one slot, for which as many requests wait all the time. */
class Line {
  readonly #queue = new QueueHarness({ max_waiting: 10 * WAITING, tenant_share: 1 });
  readonly #worker = this.#queue.worker('w');
  readonly #load: Load;
  #next = 0;
  /** Processor time of what was written, µs. */
  written = 0;

  constructor(load: Load) {
    this.#load = load;
    for (let n = 0; n <= WAITING; n++) this.#ask();
  }

  /** @returns processor time of each, µs: without what is written once a second of the queue's time */
  run(requests: number): number {
    let spent = 0;
    for (let n = 0; n < requests; n += AT_ONCE) {
      spent += processorOf(() => this.#serve(Math.min(AT_ONCE, requests - n)));
      this.written += processorOf(() => this.#queue.advance(AT_ONCE / A_SECOND));
    }
    return spent / requests;
  }

  #serve(requests: number): void {
    for (let n = 0; n < requests; n++) {
      settle(this.#queue, this.#worker);
      this.#ask();
      // What was sent before is of no use any more.
      this.#worker.sent.splice(0, Number.POSITIVE_INFINITY, this.#worker.lastJob());
    }
  }

  #ask(): void {
    const tenant = `team-${this.#next++ % this.#load.tenants}`;
    this.#queue.request({
      tenant,
      token_name: tenant,
      limits: this.#load.limits,
      cost: { tokens: 10 },
      wait_for_slot_ms: 1e9,
    });
  }
}

/** µs */
function processorOf(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}
