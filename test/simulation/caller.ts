import {
  type AttemptLoopPorts,
  GONE,
  HangUp,
  openedResponse,
  runAttempts,
} from '../../src/asking/attempt-loop.ts';
import { HttpError } from '../../src/gateway/errors.ts';
import { callQueue } from '../../src/gateway/objects/calls.ts';
import { callWorker } from '../../src/gateway/objects/work.ts';
import { pack } from '../../src/protocol/index.ts';
import type { WaitingRequest } from '../../src/queue/rpc.ts';
import { callerRequest } from './caller-request.ts';
import type { CallerPlan } from './plan.ts';
import { ReadAnswer } from './read-answer.ts';
import { bodyOf, type CallerBody } from './relay-host.ts';
import type { Life } from './server.ts';
import type { Surroundings } from './worker-boot.ts';

const RETRY_MS = 1000;
/** The queue looks around every two seconds while callers wait, and its answer has a way to go, ms. */
const DEADLINE_SLACK_MS = 3000;

type End = 'whole' | 'broken' | 'gone' | 'refused' | 'failed';

/** A caller of a route that streams: reads at its own pace, may hang up, asks again when it got no answer. */
export class Caller {
  readonly #around: Surroundings;
  readonly #plan: CallerPlan;
  isDone = false;
  /** The request under way. */
  #asking: string | null = null;

  constructor(around: Surroundings, plan: CallerPlan) {
    this.#around = around;
    this.#plan = plan;
  }

  get id(): string {
    return this.#plan.id;
  }

  async run(): Promise<void> {
    const { timeline, trace, server } = this.#around;
    for (let attempt = 1; attempt <= this.#plan.tries; attempt++) {
      const life = server.life;
      const askedAt = timeline.now;
      const stoodBefore = server.stoodStillMs;
      const end = life ? await this.#request(life, `${this.id}-${attempt}`) : 'broken';
      this.#asking = null;
      this.#heardInTime(timeline.now - askedAt - (server.stoodStillMs - stoodBefore));
      trace.say(`${this.id}-${attempt} ended: ${end}`);
      if (end === 'whole' || end === 'gone') break;
      await timeline.sleep(RETRY_MS);
    }
    this.isDone = true;
  }

  /**
   * Whatever happens to a base worker; an extended one, which alone has adapters, keeps the deadline itself, once it can
   * be reached again.
   */
  #heardInTime(tookMs: number): void {
    const { adapter, model, deadlineMs } = this.#plan;
    if (adapter !== null || model !== 'base') return;
    if (deadlineMs === null || tookMs <= deadlineMs + DEADLINE_SLACK_MS) return;
    const message = `${this.id} waited ${tookMs} ms, not ${deadlineMs}`;
    this.#around.oracle.violated('a caller hears by its deadline', message);
  }

  async #request(life: Life, jobId: string): Promise<End> {
    const { timeline } = this.#around;
    const hangUp = new HangUp();
    const { hangsUpAfterMs } = this.#plan;
    if (hangsUpAfterMs !== null) timeline.after(hangsUpAfterMs, () => this.#hangUp(jobId, hangUp));
    this.#asking = jobId;
    const over = new Promise<'over'>((resolve) => life.whenOver(() => resolve('over')));
    const gone = hangUp.whenHappened.then(() => 'gone' as const);
    const attempted = runAttempts(this.#call(jobId), hangUp, this.#ports(life, hangUp));
    const answered = attempted.catch((error: unknown) => {
      if (error instanceof HttpError && error.code === 'queue_restarting') return 'restarting' as const;
      throw error;
    });
    const outcome = await Promise.race([answered, over, gone]);
    if (outcome === 'restarting') return 'failed';
    if (outcome === 'over') return 'broken';
    if (outcome === 'gone' || outcome.kind === 'gone') return 'gone';
    if (outcome.kind === 'refused') return 'refused';
    if (outcome.kind === 'failed') return 'failed';
    if (outcome.kind === 'result' && this.#isOfBase(outcome.worker_id)) {
      return this.#took(jobId, outcome.worker_id, outcome.result);
    }
    const body = outcome.kind === 'answer' ? bodyOf(outcome.answer) : null;
    if (body === null) {
      this.#around.oracle.violated('an answer comes over its relay', `${jobId}: ${outcome.kind}`);
      return 'broken';
    }
    return await this.#read(jobId, body, life, hangUp);
  }

  #isOfBase(workerId: string): boolean {
    return this.#around.plan.workers.some(({ name, isBase }) => isBase && name === workerId);
  }

  /** An answer of a base worker comes at once and whole. */
  #took(jobId: string, workerId: string, result: Record<string, unknown>): End {
    const { oracle } = this.#around;
    const exchange = oracle.exchangeOf(JSON.stringify(result));
    if (exchange?.jobId !== jobId || exchange.worker !== workerId) {
      oracle.violated('an answer is what the engine said', `${jobId} by ${workerId}: ${exchange?.jobId}`);
    }
    return 'whole';
  }

  #hangUp(jobId: string, hangUp: HangUp): void {
    if (this.#asking !== jobId) return;
    this.#around.oracle.callerGone(jobId);
    hangUp.happen();
  }

  #call(jobId: string): WaitingRequest {
    const { path, body } = callerRequest(this.#plan, jobId);
    return {
      job_id: jobId,
      job_type: 'engine_request',
      payload: pack(JSON.stringify({ method: 'POST', path }), Buffer.from(JSON.stringify(body))),
      model: this.#plan.adapter ?? this.#plan.model,
      tenant: jobId,
      priority: 0,
      wait_for_worker_ms: this.#plan.waitMs,
      waits_for_start: this.#plan.waitMs === 0,
      wait_for_slot_ms: Math.max(this.#plan.waitMs, 20_000),
      ...(this.#plan.prefix && { prefix: this.#plan.prefix }),
      ...(this.#plan.deadlineMs === null ? {} : { deadline_ms: this.#plan.deadlineMs }),
    };
  }

  #ports(life: Life, hangUp: HangUp): AttemptLoopPorts<Response> {
    const { plan, server, timeline } = this.#around;
    const env = server.env(life);
    return {
      queue: {
        request: (wanted) => callWorker(env, 'q', wanted, () => timeline.now),
        cancel: (id) => callQueue(env, 'q', (queue) => queue.cancel(id, 'caller_gone', null)),
      },
      openStream: async (stream, { call: { payload: _, ...call }, worker_id }) => {
        const asked = { call, queue_id: 'q', worker_id, more: {} };
        const opening = server.openStream(life, worker_id, stream, asked);
        if ((await hangUp.or(opening)) === GONE) {
          // The caller of the attempt loop reads no answer that opens after that; some hosts drop the call at once.
          if (plan.dropsCalls) server.dropStream(life, worker_id, stream);
          else void opening.then((late) => bodyOf(late)?.cancel()).catch(() => {});
        }
        return openedResponse(await opening);
      },
      waitUntil: (promise) => void promise.catch(() => {}),
      now: () => timeline.now,
      // A timer of a process that has ended never fires.
      sleep: (ms) => new Promise((resolve) => timeline.after(ms, () => life.isAlive && resolve())),
    };
  }

  /** Reads to the end and holds every byte against what the engine said. */
  async #read(jobId: string, body: CallerBody, life: Life, hangUp: HangUp): Promise<End> {
    const { timeline } = this.#around;
    const answer = new ReadAnswer(this.#around, jobId, this.#plan.moves?.asksUsage);
    for (;;) {
      await timeline.sleep(this.#plan.readEveryMs);
      if (hangUp.hasHappened) {
        body.cancel();
        return 'gone';
      }
      if (!life.isAlive) return 'broken';
      for (const piece of body.read(this.#plan.readBytes)) answer.take(piece);
      if (body.isEmpty && body.state === 'aborted') return 'broken';
      if (body.isEmpty && body.state === 'ended') {
        answer.ended();
        return 'whole';
      }
    }
  }
}
