import { DatabaseSync } from 'node:sqlite';
import type { Row } from '../../src/durable/ports.ts';
import { FleetRegistry } from '../../src/fleet/registry.ts';
import type { ConfigStart, FleetRpc } from '../../src/fleet/rpc.ts';
import { completeQueueSettings } from '../../src/settings/queue-settings.ts';
import type { Random } from './random.ts';
import type { Timeline } from './timeline.ts';

/** What the scheduler tells of its config, each for a while. */
const STATES: ConfigStart['state'][] = ['scaled_to_zero', 'starting', 'stopped', 'ready'];
const TURN_MS = 7000;

/** The fleet object: what it has written outlives its process. */
export class FleetHost {
  readonly #timeline: Timeline;
  readonly #random: Random;
  readonly #database = new DatabaseSync(':memory:');
  readonly #startsWorkers: boolean;
  #alarmAt: number | null = null;
  #registry: FleetRegistry;

  /** @param startsWorkers whether a scheduler starts workers, or has stopped doing so, by turns */
  constructor(timeline: Timeline, random: Random, startsWorkers: boolean) {
    this.#timeline = timeline;
    this.#random = random;
    this.#startsWorkers = startsWorkers;
    this.#registry = this.#open();
  }

  /** Its process starts anew. */
  restart(): void {
    this.#registry = this.#open();
  }

  /** What gateway and queue may ask, each question and answer with a delay of its own. */
  calls(isAlive: () => boolean): FleetRpc {
    const rpc = <T>(ask: (registry: FleetRegistry) => T): Promise<T> =>
      new Promise((resolve) => {
        const later = (run: () => void) =>
          this.#timeline.after(this.#random.int(0, 3), () => {
            if (isAlive()) run();
          });
        later(() => {
          const answer = ask(this.#registry);
          later(() => resolve(answer));
        });
      });
    return {
      heartbeat: (beat) => rpc((registry) => void registry.heartbeat(beat)),
      keepTelemetry: (workerId, batch) => rpc((registry) => void registry.keepTelemetry(workerId, batch)),
      telemetry: (workerId, kind, query) => rpc((registry) => registry.telemetry(workerId, kind, query)),
      record: (...told) => rpc((registry) => registry.record(...told)),
      view: () => rpc((registry) => registry.view.view()),
      history: (...asked) => rpc((registry) => registry.history(...asked)),
      sessions: () => rpc((registry) => registry.sessions()),
      refused: (refused) => rpc((registry) => registry.refused(refused)),
      workers: () => rpc((registry) => registry.workers()),
      signIn: (signIn) => rpc((registry) => registry.signIn(signIn)),
      closeViewers: async () => {},
      signedIn: (id) => rpc((registry) => registry.signedIn(id)),
      signOut: (id) => rpc((registry) => registry.signOut(id)),
      models: () => rpc((registry) => registry.models()),
      keepResponse: (...kept) => rpc((registry) => registry.keepResponse(...kept)),
      ownerOfResponse: (...asked) => rpc((registry) => registry.ownerOfResponse(...asked)),
      chooseConfigs: (models) => rpc((registry) => registry.chooseConfigs(models)),
      starts: () => rpc((registry) => registry.starts()),
    };
  }

  #starts(): ConfigStart[] {
    if (!this.#startsWorkers) return [];
    const state = STATES[Math.floor(this.#timeline.now / TURN_MS) % STATES.length]!;
    const start = {
      names: ['tiny'],
      state,
      progress: null,
      text: state,
      wait_ms: 30_000,
      retry_after_seconds: 5,
    };
    return [{ config_id: 'cfg', ...start }];
  }

  /** No run is so long that anything ages out: the alarm is not waited for. */
  #open(): FleetRegistry {
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
    const registry = new FleetRegistry(
      { queueId: 'vllm-queue', sql, alarm, now: () => this.#timeline.now },
      completeQueueSettings({}),
    );
    registry.starts = () => this.#starts();
    return registry;
  }
}
