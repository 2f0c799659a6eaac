import { HttpError } from '../../src/gateway/errors.ts';
import { followJob } from '../../src/gateway/inference/follow-job.ts';
import { callQueue } from '../../src/gateway/objects/calls.ts';
import { isSettled } from '../../src/protocol/index.ts';
import type { ReaderPlan } from './plan.ts';
import { ReadAnswer } from './read-answer.ts';
import type { CallerBody } from './relay-host.ts';
import type { Life } from './server.ts';
import type { Surroundings } from './worker-boot.ts';

const RETRY_MS = 3000;
/** Of nobody who reads: too late for the beginning, too early for the job, or in a restart of the queue. */
const COMES_AGAIN = new Set(['job_not_found', 'beginning_dropped', 'queue_restarting', 'caller_gone']);

/** Reads the answer of a stored job until it has all of it, or leaves; comes again when it broke. */
export class Reader {
  readonly #around: Surroundings;
  readonly #jobId: string;
  readonly #plan: ReaderPlan;
  readonly #left = new AbortController();
  isDone = false;

  constructor(around: Surroundings, jobId: string, plan: ReaderPlan) {
    this.#around = around;
    this.#jobId = jobId;
    this.#plan = plan;
  }

  get id(): string {
    return this.#plan.id;
  }

  async run(): Promise<void> {
    const { timeline, trace, server } = this.#around;
    const { leavesAfterMs } = this.#plan;
    if (leavesAfterMs !== null) timeline.after(leavesAfterMs, () => this.#left.abort());
    while (!this.#left.signal.aborted) {
      const end = server.life ? await this.#read(server.life) : 'broken';
      trace.say(`${this.id} ended: ${end}`);
      if (end === 'whole' || end === 'failed') break;
      await timeline.sleep(RETRY_MS);
    }
    this.isDone = true;
  }

  async #read(life: Life): Promise<'whole' | 'failed' | 'broken' | 'left'> {
    const { server, timeline } = this.#around;
    const env = server.env(life);
    const bodies: CallerBody[] = [];
    const leave = new AbortController();
    const signal = AbortSignal.any([leave.signal, this.#left.signal]);
    const answered = followJob(this.#jobId, signal, {
      follow: (fence, waitMs) =>
        callQueue(env, 'q', (queue) => queue.follow(this.#jobId, fence, waitMs, null)),
      openReplay: (worker, stream, signal) =>
        server.openReplay(life, worker, stream, signal, (body) => String(bodies.push(body) - 1)),
      whole: async (job) => job,
      now: () => timeline.now,
    }).catch((error: unknown) => {
      if (error instanceof HttpError && COMES_AGAIN.has(error.code ?? '')) return null;
      throw error;
    });
    const over = new Promise<null>((resolve) => life.whenOver(() => resolve(null)));
    const left = new Promise<null>((resolve) => signal.addEventListener('abort', () => resolve(null)));
    try {
      const response = await Promise.race([answered, over, left]);
      if (response === null) return this.#left.signal.aborted ? 'left' : 'broken';
      const body = bodies[Number(response.headers.get('x-body') ?? -1)];
      return body ? await this.#readReplay(body, life) : await this.#readSettled(response);
    } finally {
      leave.abort();
    }
  }

  async #readReplay(body: CallerBody, life: Life): Promise<'whole' | 'broken' | 'left'> {
    const { timeline } = this.#around;
    const answer = new ReadAnswer(this.#around, this.#jobId);
    for (;;) {
      await timeline.sleep(this.#plan.readEveryMs);
      if (this.#left.signal.aborted) return 'left';
      if (!life.isAlive) return 'broken';
      for (const piece of body.read(this.#plan.readBytes)) answer.take(piece);
      if (body.isEmpty && body.state === 'aborted') return 'broken';
      if (body.isEmpty && body.state === 'ended') {
        answer.ended();
        return 'whole';
      }
    }
  }

  /** What is settled is read out of the row: the whole answer of the attempt that counts, or why there is none. */
  async #readSettled(response: Response): Promise<'whole' | 'failed'> {
    const { server, oracle } = this.#around;
    const job = server.queue.rules?.read('get', this.#jobId, null);
    if (job && !isSettled(job.state)) {
      oracle.violated(
        'a reader gets what was stored',
        `${this.id} was answered while the job is ${job.state}`,
      );
    }
    if (!response.ok) {
      if (job?.state === 'succeeded') {
        oracle.violated('a reader gets what was stored', `${this.id} got ${response.status} of a success`);
      }
      return 'failed';
    }
    const answer = new ReadAnswer(this.#around, this.#jobId);
    answer.take(new Uint8Array(await response.arrayBuffer()));
    answer.ended();
    if (job && answer.fence !== job.fence_token) {
      const message = `${this.id} has the answer of attempt #${answer.fence}, not #${job.fence_token}`;
      oracle.violated('a reader gets what was stored', message);
    }
    return 'whole';
  }
}
