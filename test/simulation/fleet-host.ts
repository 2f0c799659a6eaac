import { DatabaseSync } from 'node:sqlite';
import type { FleetStub } from '../../src/asking/objects.ts';
import type { Exposed } from '../../src/durable/calls.ts';
import type { Row } from '../../src/durable/ports.ts';
import { type Called, COMMANDS, VIEWS } from '../../src/fleet/calls.ts';
import { Fleet } from '../../src/fleet/fleet.ts';
import type { PoolStart } from '../../src/fleet/rpc.ts';
import { completeQueueSettings } from '../../src/settings/queue-settings.ts';
import { NO_ALERTING } from '../support/no-alerting.ts';
import type { Random } from '../support/random.ts';
import type { Timeline } from './timeline.ts';

/** What the scheduler tells of its pool, each for a while. */
const STATES: PoolStart['state'][] = ['scaled_to_zero', 'starting', 'stopped', 'ready'];
const TURN_MS = 7000;

/** The tables of its calls that a run makes. */
const ASKED = { ...VIEWS, ...COMMANDS };

export type FleetCallsOfRun = Exposed<typeof ASKED> & Pick<FleetStub, 'record'>;

/** The fleet object: what it has written outlives its process. */
export class FleetHost {
  readonly #timeline: Timeline;
  readonly #random: Random;
  readonly #database = new DatabaseSync(':memory:');
  readonly #startsWorkers: boolean;
  #alarmAt: number | null = null;
  #fleet: Fleet;

  /** @param startsWorkers whether a scheduler starts workers, or has stopped doing so, by turns */
  constructor(timeline: Timeline, random: Random, startsWorkers: boolean) {
    this.#timeline = timeline;
    this.#random = random;
    this.#startsWorkers = startsWorkers;
    this.#fleet = this.#open();
  }

  /** Its process starts anew. */
  restart(): void {
    this.#fleet = this.#open();
  }

  /** What gateway and queue may ask, each question and answer with a delay of its own. */
  calls(isAlive: () => boolean): FleetCallsOfRun {
    const rpc = <T>(ask: (fleet: Fleet) => T): Promise<T> =>
      new Promise((resolve) => {
        const later = (run: () => void) =>
          this.#timeline.after(this.#random.int(0, 3), () => {
            if (isAlive()) run();
          });
        later(() => {
          const answer = ask(this.#fleet);
          later(() => resolve(answer));
        });
      });
    const called = (fleet: Fleet) => ({ fleet, queueId: 'vllm-queue', now: this.#timeline.now });
    type Calls = Record<string, (called: Called, ...asked: unknown[]) => unknown>;
    const ofTable = ([name, call]: [string, Calls[string]]) => [
      name,
      (...asked: unknown[]) => rpc((fleet) => call(called(fleet), ...asked)),
    ];
    return {
      ...(Object.fromEntries(Object.entries(ASKED as Calls).map(ofTable)) as Exposed<typeof ASKED>),
      record: (...told) => rpc((fleet) => fleet.record(...told)),
    };
  }

  #starts(): PoolStart[] {
    if (!this.#startsWorkers) return [];
    const state = STATES[Math.floor(this.#timeline.now / TURN_MS) % STATES.length]!;
    const start = {
      names: ['tiny'],
      state,
      progress: null,
      text: state,
      wait_ms: 30_000,
      retry_after_seconds: 5,
      outdated: [],
    };
    return [{ config_id: 'cfg', ...start }];
  }

  /** No run is so long that anything ages out: the alarm is not waited for. */
  #open(): Fleet {
    const alarm = {
      get: () => this.#alarmAt,
      set: (at: number) => {
        this.#alarmAt = at;
      },
      clear: () => {
        this.#alarmAt = null;
      },
    };
    const sql = {
      exec: (query: string, ...bindings: (string | number | null)[]) =>
        this.#database.prepare(query).all(...bindings) as unknown as Row[],
    };
    const fleet = new Fleet(
      {
        queueId: 'vllm-queue',
        sql,
        alarm,
        now: () => this.#timeline.now,
        randomName: (length) => 'a'.repeat(length),
        alerting: () => NO_ALERTING,
      },
      completeQueueSettings({}),
    );
    fleet.starts = () => this.#starts();
    return fleet;
  }
}
