import { type FakeConnection, QueueHarness } from '../../test/support/queue-harness.ts';
import { quantile, sum } from '../statistics.ts';
import { Events } from './events.ts';
import type { Asked } from './loads.ts';
import { type EngineShape, ModelEngine } from './model-engine.ts';

/** How one load went. */
export interface Outcome {
  /** Share of all tokens of prompts that an engine had in its cache. */
  hits: number;
  /** The same as the queue's metrics tell it: what it supposed, and what engines told. */
  predicted: number;
  seen: number;
  /** ms from a request to its first token */
  firstToken: { mean: number; p50: number; p99: number };
  /** The most that one worker was given, as a share of all. */
  busiest: number;
}

interface Fleet {
  workers: number;
  slots: number;
  engine: EngineShape;
}

/** A worker's end of its connection: it gives jobs to its engine, and settles them. */
class Player {
  readonly connection: FakeConnection;
  readonly engine: ModelEngine;
  given = 0;

  constructor(connection: FakeConnection, engine: ModelEngine) {
    this.connection = connection;
    this.engine = engine;
  }

  /** Jobs that it was given since it was last asked. */
  takeJobs(): { job_id: string; fence_token: number }[] {
    const jobs = this.connection.frames('job') as never[];
    this.connection.sent.length = 0;
    this.given += jobs.length;
    return jobs;
  }
}

/**
 * Plays a load through the real rules of the queue over model engines, in virtual time.
 * @param isTold the queue is told how prompts begin; false: it gives them to the least loaded worker
 */
export function play(load: readonly Asked[], { workers, slots, engine }: Fleet, isTold: boolean): Outcome {
  const queue = new QueueHarness({ lease_seconds: 1e9 });
  const events = new Events(queue.nowMs);
  const players = Array.from(
    { length: workers },
    (_, at) => new Player(queue.worker(`w${at}`, { capacity: slots }), new ModelEngine(events, engine)),
  );
  const waits: number[] = [];
  let [cachedTokens, promptTokens] = [0, 0];

  const start = (player: Player, jobId: string, fence: number) => {
    const asked = load[Number(jobId)]!;
    let cached = 0;
    player.engine.run(
      asked,
      (tokens) => {
        cached = tokens;
        cachedTokens += tokens;
        promptTokens += asked.promptTokens;
        waits.push(events.now - startedAt - asked.at);
      },
      () => {
        const usage = {
          prompt_tokens: asked.promptTokens,
          completion_tokens: asked.answerTokens,
          cached_tokens: cached,
        };
        const settled = { type: 'job_result', job_id: jobId, fence_token: fence, result: {}, usage };
        look(() => queue.say(player.connection, settled));
      },
    );
  };
  const look = (change: () => void) => {
    queue.nowMs = events.now;
    change();
    for (const player of players) {
      for (const { job_id, fence_token } of player.takeJobs()) start(player, job_id, fence_token);
    }
  };

  const startedAt = events.now;
  for (const [index, { at, prefix }] of load.entries()) {
    const asked = { job_id: String(index), wait_for_slot_ms: 1e9, ...(isTold && prefix && { prefix }) };
    events.at(startedAt + at, () => look(() => queue.request(asked)));
  }
  events.run();
  if (waits.length !== load.length)
    throw new Error(`${load.length - waits.length} requests were not answered`);
  const told = queue.queue.read('metrics').pools[0]!.counts.prefix_hits;
  return {
    hits: cachedTokens / promptTokens,
    predicted: told.predicted / promptTokens,
    seen: told.seen / promptTokens,
    firstToken: {
      mean: sum(waits) / waits.length,
      p50: quantile(waits, 0.5),
      p99: quantile(waits, 0.99),
    },
    busiest: Math.max(...players.map(({ given }) => given)) / load.length,
  };
}
