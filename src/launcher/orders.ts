import type { Clock } from '../process/clock.ts';
import type { LaunchOutcome, Order, OrderResult } from '../scheduler/rpc.ts';

/** The most concurrent calls to one provider. */
const AT_ONCE = 8;
/**
 * A launch that could not begin for this many ms is dropped: after a minute without an answer the scheduler repeats
 * the order, maybe to another launcher, and two launchers must not carry it out at once.
 */
const GOOD_FOR_MS = 25_000;

interface Call {
  /** The newest order that the call answers. */
  order: Order;
  isRunning: boolean;
  /** When the sync that brought the order began, epoch ms. */
  since: number;
  /** The order to carry out next under the call's name; null: there is none. */
  next: { order: Order; since: number } | null;
}

/**
 * Carries out the orders of one provider. A name has one call at a time, a bounded number of calls run side by side,
 * and terminations come first since they end costs.
 */
export class Orders {
  readonly #clock: Clock;
  readonly #carryOut: (order: Order) => Promise<LaunchOutcome>;
  readonly #keep: (result: OrderResult) => void;
  readonly #calls = new Map<string, Call>();
  #running = 0;
  #isStopped = false;
  #idle = Promise.withResolvers<void>();

  /** @param carryOut never rejects */
  constructor(
    clock: Clock,
    carryOut: (order: Order) => Promise<LaunchOutcome>,
    keep: (result: OrderResult) => void,
  ) {
    this.#clock = clock;
    this.#carryOut = carryOut;
    this.#keep = keep;
  }

  /** Queues an order. @param since when the sync that brought the order began, epoch ms */
  take(order: Order, since: number): void {
    if (this.#isStopped) return;
    const call = this.#calls.get(order.name);
    if (!call) this.#calls.set(order.name, { order, since, isRunning: false, next: null });
    else if (!isAnswered(call, order)) call.next = { order, since };
    else if (order.order > call.order.order) call.order = order;
    this.#startWhatFits();
  }

  /** Begins no more calls. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Resolves when no call is in progress. */
  async idle(): Promise<void> {
    while (this.#running > 0) await this.#idle.promise;
  }

  #startWhatFits(): void {
    while (this.#running < AT_ONCE && !this.#isStopped) {
      const waiting = [...this.#calls.values()].filter(({ isRunning }) => !isRunning);
      const call = waiting.find(({ order }) => order.kind === 'terminate') ?? waiting[0];
      if (!call) return;
      void this.#run(call);
    }
  }

  async #run(call: Call): Promise<void> {
    const { order } = call;
    if (order.kind === 'launch' && this.#clock.now() - call.since > GOOD_FOR_MS) return this.#after(call);
    call.isRunning = true;
    this.#running++;
    const outcome = await this.#carryOut(order);
    this.#running--;
    // A repeated order is for the same machine, so the result of this call answers it.
    this.#keep({ launch_id: order.launch_id, order: call.order.order, outcome });
    this.#after(call);
    if (this.#running > 0) return;
    this.#idle.resolve();
    this.#idle = Promise.withResolvers();
  }

  #after({ order: { name }, next }: Call): void {
    this.#calls.delete(name);
    if (next) this.#calls.set(name, { ...next, isRunning: false, next: null });
    this.#startWhatFits();
  }
}

/**
 * Returns whether a call under the order's name answers the order too. One that is looking for machines by that name
 * may miss the machine whose id has become known meanwhile.
 */
function isAnswered({ order: begun, isRunning }: Call, order: Order): boolean {
  if (begun.kind === 'launch' || order.kind === 'launch') return begun.kind === order.kind;
  return !isRunning || order.external_id === null || begun.external_id === order.external_id;
}
