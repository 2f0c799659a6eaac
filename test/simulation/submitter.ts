import type { QueueStub } from '../../src/asking/objects.ts';
import { callQueue } from '../../src/gateway/objects/calls.ts';
import { isSettled, type JobView } from '../../src/protocol/index.ts';
import type { SubmitJob } from '../../src/queue/rpc.ts';
import { Random } from '../support/random.ts';
import { lastingError } from './lasting-error.ts';
import type { JobPlan } from './plan.ts';
import type { Life } from './server.ts';
import { storedChat } from './stored-prompt.ts';
import type { Surroundings } from './worker-boot.ts';

/** A client that hears nothing for so long asks again, ms. */
const GIVE_UP_AFTER_MS = 5000;
const LOOKS_EVERY_MS = 3000;
const WAIT_MS = 10_000;

/** Someone with one stored job: submits it until it is accepted, may cancel it, waits until it is settled. */
export class Submitter {
  readonly #around: Surroundings;
  readonly #plan: JobPlan;
  readonly #random: Random;
  /** As it was first heard to be settled. */
  #settled: string | null = null;
  #created = 0;
  state: 'submitting' | 'accepted' | 'settled' = 'submitting';

  constructor(around: Surroundings, plan: JobPlan) {
    this.#around = around;
    this.#plan = plan;
    this.#random = new Random(around.plan.seed, `submitter ${plan.id}`);
  }

  get id(): string {
    return this.#plan.id;
  }

  async run(): Promise<void> {
    const { timeline, trace } = this.#around;
    const job = submissionOf(this.#plan);
    for (;;) {
      const answers = await this.#ask((queue) => queue.submit([job]));
      const answer = answers?.[0];
      if (!answer) continue;
      if (!answer.ok) {
        this.#around.oracle.violated(
          'the same submission is the same job',
          `${this.id}: ${JSON.stringify(answer)}`,
        );
        return;
      }
      if (answer.created) this.#created += 1;
      trace.say(`${this.id} accepted${answer.created ? '' : ' before'}: ${answer.job.state}`);
      break;
    }
    this.state = 'accepted';
    if (this.#plan.cancelAfterMs !== null) {
      await timeline.sleep(this.#plan.cancelAfterMs);
      this.#around.oracle.cancelAsked(this.id);
      while ((await this.#ask((queue) => queue.cancel(this.id, 'cancelled', null))) === undefined);
    }
    while (this.state === 'accepted') {
      if (!this.#plan.waits) await timeline.sleep(LOOKS_EVERY_MS);
      this.#look(
        await this.#ask(
          (queue) => (this.#plan.waits ? queue.wait(this.id, WAIT_MS, null) : queue.get(this.id, null)),
          WAIT_MS + GIVE_UP_AFTER_MS,
        ),
      );
    }
    // Looked at once more, later: it must not have changed.
    await timeline.sleep(LOOKS_EVERY_MS);
    this.#look(await this.#ask((queue) => queue.get(this.id, null)));
  }

  #look(view: JobView | null | undefined): void {
    if (view === undefined) return;
    if (view === null) {
      this.#around.oracle.violated('an accepted job is not lost', `${this.id} is unknown`);
      this.state = 'settled';
      return;
    }
    if (!isSettled(view.state)) {
      if (this.#settled !== null) {
        this.#around.oracle.violated('a job settles once', `${this.id} was heard settled, now ${view.state}`);
      }
      return;
    }
    const { state, result, attempts, fence_token } = view;
    const text = JSON.stringify([state, result, lastingError(view), attempts, fence_token]);
    if (this.#settled !== null && this.#settled !== text) {
      this.#around.oracle.violated('a job settles once', `${this.id}: first ${this.#settled}, now ${text}`);
    }
    this.#settled = text;
    this.state = 'settled';
  }

  /** One HTTP request; undefined when no answer was heard. */
  async #ask<T>(
    ask: (queue: QueueStub) => Promise<T>,
    giveUpAfterMs = GIVE_UP_AFTER_MS,
  ): Promise<T | undefined> {
    const { timeline, server, plan } = this.#around;
    const lossy = this.#around.isTroubled() ? plan.httpLoss : 0;
    const requestLost = this.#random.chance(lossy / 2);
    const answerLost = this.#random.chance(lossy / 2);
    await timeline.sleep(1 + this.#random.wait(plan.latencyMs));
    const life = server.life;
    if (!life || requestLost) {
      await timeline.sleep(life ? giveUpAfterMs : 500);
      return undefined;
    }
    const env = server.env(life);
    const answered = callQueue(env, 'q', ask).catch(() => undefined);
    const heard = answerLost ? new Promise<undefined>(() => {}) : answered;
    return await Promise.race([heard, died(life), timeline.sleep(giveUpAfterMs).then(() => undefined)]);
  }
}

/** The connection breaks with the process. */
function died(life: Life): Promise<undefined> {
  return new Promise((resolve) => life.whenOver(() => resolve(undefined)));
}

function submissionOf(plan: JobPlan): SubmitJob {
  const chat = plan.prompt === null ? { messages: [] } : storedChat(plan.prompt);
  const payload =
    plan.jobType === 'chat_completion'
      ? chat
      : {
          method: 'POST',
          path: '/v1/chat/completions',
          body: JSON.stringify({
            model: plan.asksAlias ? 'name' : 'tiny',
            ...chat,
            ...(plan.readers && { stream: true }),
          }),
        };
  return {
    id: plan.id,
    job_type: plan.jobType,
    config_id: plan.configId,
    ...(plan.asksAlias && { model: 'name' }),
    payload: JSON.stringify(payload),
    priority: plan.priority,
    max_attempts: plan.maxAttempts,
    tenant: plan.id,
    ...(plan.readers && { stream: true }),
    ...(plan.deadlineSeconds === null ? {} : { deadline_seconds: plan.deadlineSeconds }),
  };
}
