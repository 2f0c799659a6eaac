import type { LedgerStep } from '../client/index.ts';
import { EXIT } from '../process/index.ts';
import type { RequestRecord } from '../protocol/index.ts';
import { askQueueJson, type QueueTarget } from './ask-queue.ts';
import { print, printNote, type Screen } from './terminal.ts';
import { FIRST_STATE, matches, pressed, type TopState } from './top/keys.ts';
import { drawLive, type Keys, readFleet, untilStopped, watchFleet } from './top/live.ts';
import { fleetLines, REQUEST_ORDERS, type ShownFleet, topLines, WORKER_ORDERS } from './top/screen.ts';

interface TopOptions extends QueueTarget {
  /** Whether the command prints the frames of the live connection, a line each. */
  json?: boolean;
}

/**
 * Runs `worker-vllm top`: shows the fleet live in a terminal until it is stopped. If the output is no terminal, the
 * fleet is printed once.
 * @returns the exit code
 * @throws UserError when the queue cannot be reached, or the token may not look
 */
export async function runTop(options: TopOptions): Promise<number> {
  // This call reports what is wrong, which a WebSocket does not.
  const first = await readFleet(options);
  if (options.json) return printFrames(options);
  if (process.stdout.isTTY) {
    const browsing = new Browsing(options);
    return drawLive(options, first, (...shown) => browsing.lines(...shown), browsing);
  }
  const screen = { columns: 200, rows: Number.POSITIVE_INFINITY, hasColours: false };
  const lines = fleetLines({ view: first, now: first.at, connection: 'as it is now' }, screen);
  print(lines.join('\n'));
  return EXIT.ok;
}

async function printFrames(address: QueueTarget): Promise<number> {
  return untilStopped(
    watchFleet(address, {
      onFrame: (frame) => print(JSON.stringify(frame)),
      onState: (state) => state !== 'live' && printNote(state),
    }),
  );
}

/** While requests are shown, they are read at this interval, ms. */
const REQUESTS_EVERY_MS = 2000;
const MOST_REQUESTS = 200;

/** Holds the choices of a person at a terminal: which part of a fleet and its requests is shown. */
class Browsing implements Keys {
  readonly #target: QueueTarget;
  #changed: () => void = () => {};
  #state: TopState = FIRST_STATE;
  #requests: RequestRecord[] | string | null = null;
  /**
   * The request whose course is shown, with its steps: an error's text if they could not be read; null while they are
   * being read.
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

  /** Handles a key. @returns false if the key quits */
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
