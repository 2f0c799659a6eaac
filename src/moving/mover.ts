import {
  type AttemptLoopPorts,
  HangUp,
  type Outcome,
  openedResponse,
  REAL_TIME,
  runAttempts,
  withTimeLeft,
} from '../asking/attempt-loop.ts';
import type { AskedFor, Objects } from '../asking/objects.ts';
import { onceMore } from '../asking/once-more.ts';
import { type BrokenReason, bounds, RELEASE_REASONS } from '../protocol/index.ts';
import { isUnserved, type WaitingRequest } from '../queue/rpc.ts';
import type { Mover } from '../relay/ports.ts';
import {
  type Cut,
  closingEvents,
  continuationRequest,
  isGenerated,
  onOwnTerms,
  tokensGiven,
} from './continuation.ts';
import { Stitcher } from './stitch.ts';

/**
 * Makes the ports that request another attempt from queue and relays, as the gateway requested the first.
 * @param time the clock and timers of these ports
 */
export function elsewhere(objects: Objects, asked: AskedFor, time = REAL_TIME): AttemptLoopPorts<Response> {
  const { queue_id, more } = asked;
  return {
    queue: {
      request: async (call) => {
        const startedAt = time.now();
        const answer = await onceMore(() =>
          objects.queue(queue_id).request(withTimeLeft(call, time.now() - startedAt)),
        );
        if (!isUnserved(answer)) return answer;
        const message = 'no worker of its model is left';
        return { kind: 'refused', reason: 'no_worker', message, retry_after_seconds: 5 };
      },
      cancel: (id) => onceMore(() => objects.queue(queue_id).cancel(id, 'caller_gone', null)),
    },
    openStream: async (streamId, { worker_id }) => {
      const relay = objects.relay(queue_id, worker_id);
      return openedResponse(await relay.open(streamId, more, { ...asked, worker_id }));
    },
    waitUntil: (promise) => void promise.catch(() => {}),
    ...time,
  };
}

/**
 * Reports to the ledger why an answer that broke off was not moved; if the queue cannot be reached, the ledger goes
 * without.
 */
export function stayed(objects: Objects, { queue_id, call }: AskedFor, why: string): void {
  void onceMore(() => objects.queue(queue_id).stayed(call.job_id, why)).catch(() => {});
}

export interface MovingPorts {
  /** Makes the ports by which queue and other relays are asked. */
  elsewhere(asked: AskedFor): AttemptLoopPorts<Response>;
  /** Reports, for the ledger, why an answer that broke off was not moved. */
  stayed(asked: AskedFor, why: string): void;
  /** Passes on events of a moved answer, as `Relay` defines it. */
  goOn(id: number, events: Uint8Array): boolean;
  movedTo(id: number, reason: BrokenReason | null): void;
  now(): number;
}

type Beginning = Pick<
  NonNullable<WaitingRequest['moved']>,
  'given_ms_ago' | 'first_token_ms_ago' | 'newest_first_token_ms_ago'
>;

/** A move of an answer. */
interface Move {
  hangUp: HangUp;
  /** Resolves when the caller reads again. */
  reads: PromiseWithResolvers<void>;
}

/** Gets the rest of broken answers from other workers, and passes it on as theirs (docs/moving.md). */
export class Moving implements Mover {
  readonly #ports: MovingPorts;
  readonly #moves = new Map<number, Move>();

  constructor(ports: MovingPorts) {
    this.#ports = ports;
  }

  move(id: number, told: Cut, reason: BrokenReason, asked: unknown): boolean {
    const opened = asked as Opened | null;
    if (opened === null) return false;
    const { call } = opened.asked;
    const cut = onOwnTerms(told, call);
    if (typeof cut === 'string') {
      this.stays(cut, reason, asked);
      return false;
    }
    const isRelease = (RELEASE_REASONS as readonly string[]).includes(reason.code);
    const moves = (call.moved?.moves ?? 0) + 1;
    const failures = (call.moved?.failures ?? 0) + (isRelease ? 0 : 1);
    if (moves > bounds.MOVES || failures >= bounds.CALL_ATTEMPTS) return false;
    const moved = {
      worker_id: opened.asked.worker_id,
      tokens: tokensGiven(cut),
      kept: cut.ids.length,
      ...(cut.plan.model_identity !== undefined && { model_identity: cut.plan.model_identity }),
      why: reason.message,
      moves,
      failures,
      ...beginning(opened, this.#ports.now()),
    };
    const move = { hangUp: new HangUp(), reads: Promise.withResolvers<void>() };
    this.#moves.set(id, move);
    void this.#run(id, cut, reason, { ...opened, asked: { ...opened.asked, call: { ...call, moved } } }, move)
      .catch((error: Error) => this.#ports.movedTo(id, notElsewhere(reason, error.message)))
      .finally(() => this.#moves.delete(id));
    return true;
  }

  stays(why: string | null, { message }: BrokenReason, asked: unknown): void {
    const opened = asked as Opened | null;
    if (opened) this.#ports.stayed(opened.asked, `${why ?? 'its token ids are not known'} (${message})`);
  }

  callerReads(id: number): void {
    this.#moves.get(id)?.reads.resolve();
  }

  callerGone(id: number): void {
    this.#moves.get(id)?.hangUp.happen();
  }

  async #run(id: number, cut: Cut, reason: BrokenReason, opened: Opened, move: Move): Promise<void> {
    // The code that broke off the answer is still running.
    await null;
    if (isGenerated(cut)) {
      this.#ports.goOn(id, closingEvents(cut));
      return this.#ports.movedTo(id, null);
    }
    const { asked, openedAt } = opened;
    const passed = this.#ports.now() - openedAt;
    const { earlier: _, ...first } = asked.call;
    const call: WaitingRequest = {
      ...withTimeLeft(first, passed),
      payload: continuationRequest(cut, first.request_id ?? first.job_id),
    };
    const outcome = await runAttempts(call, move.hangUp, this.#ports.elsewhere(asked));
    if (outcome.kind === 'gone') return;
    const problem = await problemOf(outcome);
    if (problem !== null || outcome.kind !== 'answer')
      return this.#ports.movedTo(id, notElsewhere(reason, problem ?? ''));
    if (outcome.answer.body) await this.#pass(id, outcome.answer.body, new Stitcher(cut), move);
    this.#ports.movedTo(id, null);
  }

  async #pass(id: number, body: ReadableStream<Uint8Array>, stitcher: Stitcher, move: Move): Promise<void> {
    const reader = body.getReader();
    void move.hangUp.whenHappened.then(() => reader.cancel().catch(() => {}));
    for (;;) {
      const { done, value } = await reader.read();
      const events = done ? stitcher.end() : stitcher.push(value);
      const takesMore = events.byteLength === 0 || this.#ports.goOn(id, events);
      if (done) return;
      if (takesMore) continue;
      await Promise.race([move.reads.promise, move.hangUp.whenHappened]);
      move.reads = Promise.withResolvers<void>();
    }
  }
}

/** The data that the relay stores with a stream. */
interface Opened {
  asked: AskedFor;
  /** The time when the stream was opened, epoch ms. */
  openedAt: number;
  /** The time when the first bytes of the answer arrived, epoch ms; null: none have. */
  answeredAt: number | null;
}

/** Returns how long ago the answer began, at its first and at its newest worker. */
function beginning({ asked, openedAt, answeredAt }: Opened, now: number): Beginning {
  const { moved } = asked.call;
  const sinceOpened = now - openedAt;
  const newest_first_token_ms_ago = answeredAt === null ? null : now - answeredAt;
  if (!moved) {
    const first_token_ms_ago = newest_first_token_ms_ago ?? 0;
    return { given_ms_ago: sinceOpened, first_token_ms_ago, newest_first_token_ms_ago };
  }
  return {
    newest_first_token_ms_ago,
    given_ms_ago: moved.given_ms_ago + sinceOpened,
    first_token_ms_ago: moved.first_token_ms_ago + sinceOpened,
  };
}

/** Returns why there is no answer to pass on, or null. */
async function problemOf(outcome: Outcome): Promise<string | null> {
  switch (outcome.kind) {
    case 'answer': {
      const { answer: response } = outcome;
      if (response.ok) return null;
      return `HTTP ${response.status}: ${(await response.text()).slice(0, 1000)}`;
    }
    case 'failed':
      return outcome.failure.message;
    case 'refused':
      return outcome.message;
    case 'result':
      return `worker ${outcome.worker_id} cannot go on with it`;
    case 'gone':
      return 'its caller is gone';
  }
}

function notElsewhere(reason: BrokenReason, why: string): BrokenReason {
  return { ...reason, message: `${reason.message}; it could not go on elsewhere: ${why}`, retryable: false };
}
