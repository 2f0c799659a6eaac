import type { QueueStub } from '../../src/asking/objects.ts';
import type { Answered, Exposed, Table } from '../../src/durable/calls.ts';
import {
  EXPOSED_AT_ONCE,
  EXPOSED_COMMANDS,
  EXPOSED_VIEWS,
  type ExposedCalls,
  WAITS,
} from '../../src/queue/calls.ts';
import type { Queue } from '../../src/queue/queue.ts';
import {
  isUnserved,
  type RequestAnswer,
  type SubmitJob,
  type Unserved,
  type WaitingRequest,
} from '../../src/queue/rpc.ts';
import type { Random } from '../support/random.ts';
import type { ProcessTimeline } from './process-timeline.ts';

interface QuestionPorts {
  /** Hears of every request that a gateway asks. */
  asked(request: WaitingRequest): void;
  timeline: ProcessTimeline;
  random: Random;
  /** @returns false: there is no queue at the moment */
  ask(question: (queue: Queue) => void): boolean;
  /** Lets something out when the commit that it speaks of is on disk. */
  hold(output: () => void): void;
  /** Tells the fleet object all that it has not heard yet. */
  tellFleet(): Promise<unknown>;
}

/** What a run asks of the queue object. */
type QueueCallsOfRun = ExposedCalls & Pick<QueueStub, 'request' | 'submit' | 'submitAndListen'>;

/** Puts one question to the queue as it is then, and brings the answer back. */
type Rpc = <T>(ask: (queue: Queue, answer: (value: T) => void) => void) => Promise<T>;

/** What the gateway asks of the queue object, each question and answer with a delay of its own. */
export class Questions {
  readonly #ports: QuestionPorts;
  readonly #unanswered = new Set<(error: Error) => void>();

  constructor(ports: QuestionPorts) {
    this.#ports = ports;
  }

  /** Those that the object has begun to answer. */
  get unanswered(): number {
    return this.#unanswered.size;
  }

  /** Nobody answers them any more. @returns tells whoever asked that the object is gone */
  takeUnanswered(): () => void {
    const rejects = [...this.#unanswered];
    this.#unanswered.clear();
    const error = Object.assign(new Error('the object was reset'), { retryable: true });
    return () => {
      for (const reject of rejects) reject(error);
    };
  }

  calls(isAlive: () => boolean): QueueCallsOfRun {
    return queueCalls(
      <T>(ask: (queue: Queue, answer: (value: T) => void) => void): Promise<T> =>
        this.#ask<T>(isAlive, (queue, bring) => ask(queue, (value) => this.#ports.hold(() => bring(value)))),
      this.#ports,
    );
  }

  #ask<T>(isAlive: () => boolean, ask: (queue: Queue, bring: (value: T) => void) => void): Promise<T> {
    const { timeline, random } = this.#ports;
    return new Promise<T>((resolve, reject) => {
      timeline.after(random.int(0, 3), () => {
        if (!isAlive()) return;
        this.#unanswered.add(reject);
        const bring = (value: T) => {
          this.#unanswered.delete(reject);
          timeline.after(random.int(0, 3), () => {
            if (isAlive()) resolve(value);
          });
        };
        if (!this.#ports.ask((queue) => ask(queue, bring))) this.#unanswered.delete(reject);
      });
    });
  }
}

function queueCalls(
  rpc: Rpc,
  { asked, tellFleet }: Pick<QuestionPorts, 'asked' | 'tellFleet'>,
): QueueCallsOfRun {
  const submitBy = <T extends object>(
    submit: (queue: Queue, jobs: SubmitJob[], ids: string[]) => (T | Unserved)[],
    jobs: SubmitJob[],
  ) =>
    rpc<(T | Unserved)[]>((queue, answer) => {
      const ids = jobs.map((job) => job.id ?? 'x');
      const answers = submit(queue, jobs, ids);
      if (answers.some(isUnserved)) void tellFleet().then(() => answer(answers));
      else answer(answers);
    });
  return {
    request: (job) =>
      rpc<RequestAnswer | Unserved>((queue, answer) => {
        asked(job);
        queue.do('request', job, (said) => {
          if (isUnserved(said)) void tellFleet().then(() => answer(said));
          else answer(said);
        });
      }),
    submit: (jobs) => submitBy((queue, jobs, ids) => queue.submit(jobs, ids), jobs),
    submitAndListen: (jobs, listener) =>
      submitBy((queue, jobs, ids) => queue.do('submitAndListen', jobs, ids, listener), jobs),
    ...ofTable({ ...EXPOSED_COMMANDS, ...EXPOSED_AT_ONCE }, (name, asked) =>
      rpc((queue, answer) => answer(queue.do(name, ...(asked as never)))),
    ),
    ...ofTable(EXPOSED_VIEWS, (name, asked) =>
      rpc((queue, answer) => answer(queue.read(name, ...(asked as never)))),
    ),
    ...(ofTable(WAITS, (name, asked) =>
      rpc((queue, answer) => queue.wait(name, ...([...asked, answer] as never))),
    ) as unknown as Answered<typeof WAITS>),
  };
}

function ofTable<Calls extends Table>(
  table: Calls,
  call: (name: keyof Calls, asked: unknown[]) => Promise<unknown>,
): Exposed<Calls> {
  const methods = Object.keys(table).map((name) => [name, (...asked: unknown[]) => call(name, asked)]);
  return Object.fromEntries(methods) as Exposed<Calls>;
}
