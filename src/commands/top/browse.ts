import type { LedgerStep } from '../../client/index.ts';
import type { RequestRecord } from '../../protocol/index.ts';
import { askQueueJson, type QueueTarget } from '../ask-queue.ts';
import { FIRST_STATE, matches, pressed, type TopState } from './keys.ts';
import type { Keys } from './live.ts';
import { REQUEST_ORDERS } from './requests.ts';
import { type ShownFleet, topLines, WORKER_ORDERS } from './screen.ts';
import type { Screen } from './terminal.ts';

/** While requests are shown, they are read every so many ms. */
const REQUESTS_EVERY_MS = 2000;
const MOST_REQUESTS = 200;

/** What a person at a terminal has chosen to see of a fleet and its requests. */
export class Browsing implements Keys {
  readonly #target: QueueTarget;
  #changed: () => void = () => {};
  #state: TopState = FIRST_STATE;
  #requests: RequestRecord[] | string | null = null;
  /**
   * The request whose course is shown, and its steps: an error's text where they could not be read; null while they
   * are read.
   */
  #course: { request: RequestRecord; steps: LedgerStep[] | string | null } | null = null;
  #asking: NodeJS.Timeout | undefined;

  constructor(target: QueueTarget) {
    this.#target = target;
  }

  onChange(changed: () => void): void {
    this.#changed = changed;
  }

  lines(shown: ShownFleet, screen: Screen): string[] {
    const requests = Array.isArray(this.#requests) ? this.#rows() : this.#requests;
    return topLines({ ...shown, state: this.#state, requests, course: this.#course }, screen);
  }

  /** @returns false where the key quits */
  press(key: string): boolean {
    const rows = this.#rows();
    const orders =
      this.#state.view === 'fleet' ? WORKER_ORDERS : this.#state.view === 'requests' ? REQUEST_ORDERS : [];
    const next = pressed(this.#state, key, { rows: rows.length, orders: orders.length });
    if (next === null) return false;
    const before = this.#state;
    this.#state = next;
    if (next.view !== before.view) this.#changedView(rows[before.selected]);
    return true;
  }

  stop(): void {
    clearInterval(this.#asking);
  }

  #changedView(selected: RequestRecord | undefined): void {
    clearInterval(this.#asking);
    if (this.#state.view === 'requests') {
      void this.#askRequests();
      this.#asking = setInterval(() => void this.#askRequests(), REQUESTS_EVERY_MS);
    }
    if (this.#state.view === 'request' && selected) void this.#askCourse(selected);
  }

  async #askRequests(): Promise<void> {
    const asked = `/api/requests?limit=${MOST_REQUESTS}`;
    this.#requests = await askQueueJson<{ requests: RequestRecord[] }>(this.#target, asked, {
      scope: 'read',
    }).then(
      ({ requests }) => requests,
      ({ message }: Error) => message,
    );
    this.#changed();
  }

  async #askCourse(request: RequestRecord): Promise<void> {
    this.#course = { request, steps: null };
    const path = `/api/jobs/${encodeURIComponent(request.id)}/ledger`;
    const steps = await askQueueJson<{ steps: LedgerStep[] }>(this.#target, path, { scope: 'read' }).then(
      (answer) => answer.steps,
      ({ message }: Error) => message,
    );
    if (this.#course.request === request) this.#course = { request, steps };
    this.#changed();
  }

  #rows(): RequestRecord[] {
    if (!Array.isArray(this.#requests)) return [];
    const { filter, sort } = this.#state;
    const left = this.#requests.filter(({ id, model, config_id, worker_id, outcome }) =>
      matches(filter, [id, model, config_id, worker_id, outcome]),
    );
    const [, value] = REQUEST_ORDERS[sort] ?? REQUEST_ORDERS[0]!;
    return left.sort((a, b) => value(b) - value(a));
  }
}
