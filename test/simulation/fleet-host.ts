import { DatabaseSync } from 'node:sqlite';
import type { Row } from '../../src/durable/ports.ts';
import { Fleet } from '../../src/fleet/fleet.ts';
import type { FleetRpc, PoolStart } from '../../src/fleet/rpc.ts';
import { completeQueueSettings } from '../../src/settings/queue-settings.ts';
import type { Random } from '../support/random.ts';
import type { Timeline } from './timeline.ts';

/** What the scheduler tells of its pool, each for a while. */
const STATES: PoolStart['state'][] = ['scaled_to_zero', 'starting', 'stopped', 'ready'];
const TURN_MS = 7000;

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
  calls(isAlive: () => boolean): FleetRpc {
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
    return {
      heartbeat: (beat) => rpc((fleet) => void fleet.heartbeat(beat)),
      keepTelemetry: (workerId, batch) =>
        rpc((fleet) => fleet.telemetry.add({ worker_id: workerId, kind: batch.kind }, batch.items)),
      telemetry: (workerId, kind, query) =>
        rpc((fleet) => fleet.telemetry.read({ worker_id: workerId, kind }, query)),
      requests: (...asked) => rpc((fleet) => fleet.requests.list(...asked)),
      record: (...told) => rpc((fleet) => fleet.record(...told)),
      view: () => rpc((fleet) => fleet.view.view()),
      acknowledge: (id, by) => rpc((fleet) => fleet.alerts.acknowledge(id, by, this.#timeline.now)),
      forgetWorker: (id) => rpc((fleet) => fleet.forgetWorker(id)),
      history: (...asked) => rpc((fleet) => fleet.readHistory(...asked)),
      sessions: () => rpc((fleet) => fleet.workers.sessions()),
      refused: (refused) => rpc((fleet) => fleet.incidents.refused(refused, this.#timeline.now)),
      workers: () => rpc((fleet) => fleet.workers.list()),
      signIn: (signIn) => rpc((fleet) => fleet.signIns.add(signIn, this.#timeline.now)),
      closeViewers: async () => {},
      signedIn: (id) => rpc((fleet) => fleet.signIns.find(id, this.#timeline.now)),
      signOut: (id) => rpc((fleet) => fleet.signIns.remove(id)),
      models: () => rpc((fleet) => fleet.models.all()),
      keepResponse: (...kept) => rpc((fleet) => fleet.responses.keep(...kept, this.#timeline.now)),
      ownerOfResponse: (...asked) => rpc((fleet) => fleet.responses.ownerOf(...asked)),
      choosePools: (models) => rpc((fleet) => fleet.chooseForCallers(models)),
      starts: () => rpc((fleet) => fleet.starts()),
      whyWaiting: (asking) => rpc((fleet) => fleet.view.whyWaiting(asking, this.#timeline.now)),
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
      },
      completeQueueSettings({}),
    );
    fleet.starts = () => this.#starts();
    return fleet;
  }
}
