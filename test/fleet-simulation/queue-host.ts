import type { CanaryShare, FleetEvent, QueueShare, RecordAnswer } from '../../src/fleet/rpc.ts';
import { parseJson, type QueueFrame, type RequestRecord, WorkerFrame } from '../../src/protocol/index.ts';
import { FleetReport } from '../../src/queue/object/fleet-report.ts';
import { Queue } from '../../src/queue/queue.ts';
import type { Connection, Ports, Session } from '../../src/queue/store/ports.ts';
import { Disk } from '../simulation/disk.ts';
import type { Planned, Timeline } from '../simulation/timeline.ts';
import type { Random } from '../support/random.ts';
import type { ObjectLink } from './object-link.ts';

/** From a worker to the queue, and back, ms. */
const FRAME_MS = 20;
/** Until an object that was killed is there again, ms. */
const AWAY_MS = { least: 500, most: 5000 };

export interface QueueWorld {
  timeline: Timeline;
  random: Random;
  /** To the fleet object. */
  link: ObjectLink;
  record(
    events: FleetEvent[],
    share: QueueShare | undefined,
    ended: RequestRecord[],
    failed: Record<string, number>,
  ): RecordAnswer;
  /** A worker is given a job. */
  jobSent(workerId: string): void;
  /** It has begun anew: who waits for an answer asks again. */
  isUpAgain(): void;
}

/** What a worker's end of the control socket does. */
export interface Peer {
  readonly name: string;
  onFrame(frame: QueueFrame): void;
  onClose(): void;
}

/** The real queue over real SQLite, as its object hosts it: a commit after each piece of work, reports to the fleet object. */
export class QueueHost {
  readonly disk = new Disk(() => {});
  /** The workers that are to get no more jobs, as it was last told. */
  cordoned: ReadonlySet<string> = new Set();
  readonly #world: QueueWorld;
  readonly #connections = new Set<QueueConnection>();
  #queue: Queue | null = null;
  #report!: FleetReport;
  /** Until the next piece of work: it is looked at many times. */
  #share: QueueShare | null = null;
  /** Counts how often it was killed: what belongs to an earlier life is void. */
  life = 0;
  #alarm: { at: number; planned: Planned } | null = null;
  #tick: { at: number; planned: Planned } | null = null;
  #sessions = 0;

  constructor(world: QueueWorld) {
    this.#world = world;
    this.#start();
  }

  get isUp(): boolean {
    return this.#queue !== null;
  }

  /** All of its numbers as they are; null: it is not there. */
  share(): QueueShare | null {
    this.#share ??= this.#queue?.read('share') ?? null;
    return this.#share;
  }

  /** Jobs of a pool that wait, and those that wait or run. */
  jobsOf(configId: string): { waiting: number; inSystem: number } {
    const pool = this.share()?.pools.find(({ config_id }) => config_id === configId);
    const waiting = (pool?.pending.waiting ?? 0) + (pool?.pending.stored ?? 0);
    return { waiting, inSystem: waiting + (pool?.running ?? 0) };
  }

  isServed(configId: string): boolean {
    return (this.share()?.sessions ?? []).some(
      ({ config_id, state, capacity }) => config_id === configId && state === 'ready' && capacity > 0,
    );
  }

  /** Stored jobs that it takes this worker to hold, connected or not. */
  storedAt(workerId: string): number {
    const sql = `SELECT count(*) AS held FROM jobs WHERE state = 'leased' AND worker_id = ?`;
    return Number(this.disk.exec(sql, workerId)[0]?.held);
  }

  /** One piece of work. @returns false: it is not there */
  do(work: (queue: Queue) => void): boolean {
    if (!this.#queue) return false;
    work(this.#queue);
    this.#share = null;
    this.#queue.beforeCommit();
    this.disk.commit();
    this.#armTick();
    this.#report.changed();
    return true;
  }

  /** As the fleet object calls it. */
  cordon(workerIds: string[], shares: CanaryShare[] = []): Promise<Record<string, number>> {
    return this.#world.link.call(async () => {
      let running: Record<string, number> | null = null;
      this.do((queue) => {
        this.cordoned = new Set(workerIds);
        running = queue.do('cordon', workerIds, shares);
      });
      if (running === null) throw new Error('the queue is not there');
      await this.#report.flush();
      return running;
    });
  }

  /** As the fleet object calls it. */
  tellFleet(): Promise<void> {
    return this.#world.link.call(async () => {
      if (!this.#queue) throw new Error('the queue is not there');
      this.#report.forget();
      await this.#report.flush();
    });
  }

  /** Memory and sockets are gone; the disk stays. */
  kill(): void {
    if (!this.#queue) return;
    this.#queue = null;
    this.#share = null;
    this.life += 1;
    for (const planned of [this.#tick?.planned, this.#alarm?.planned]) if (planned) planned.run = null;
    [this.#tick, this.#alarm] = [null, null];
    for (const { peer } of this.#connections) peer.onClose();
    this.#connections.clear();
    const { timeline, random } = this.#world;
    timeline.after(random.int(AWAY_MS.least, AWAY_MS.most), () => {
      this.#start();
      this.#world.isUpAgain();
    });
  }

  /** Somebody dials it. */
  accept(peer: Peer): QueueConnection | null {
    if (!this.#queue || [...this.#connections].some((one) => one.peer.name === peer.name)) return null;
    const connection = new QueueConnection(`connection-${++this.#sessions}`, peer, this.#world);
    this.#connections.add(connection);
    return connection;
  }

  /** What a worker says is heard a moment later, in its order. */
  say(connection: QueueConnection, frame: object): void {
    const text = JSON.stringify(frame);
    this.#world.timeline.after(FRAME_MS, () => {
      if (!this.#connections.has(connection)) return;
      const id = `session-${++this.#sessions}`;
      this.do((queue) => queue.onFrame(connection, parseJson(WorkerFrame, text), () => id));
    });
  }

  hangUp(connection: QueueConnection): void {
    this.#world.timeline.after(FRAME_MS, () => {
      if (this.#connections.delete(connection)) this.do((queue) => queue.onClose(connection));
    });
  }

  #start(): void {
    this.#report = this.#newReport();
    this.#queue = new Queue(this.#ports(), { queue_id: 'q', lease_seconds: 60, reconnect_grace_seconds: 10 });
    this.disk.commit();
    this.do(() => {});
  }

  /** Untold events go with the object. */
  #newReport(): FleetReport {
    const life = this.life;
    const { link, timeline, record } = this.#world;
    return new FleetReport({
      send: async (events, share, ended, failed) => {
        if (life !== this.life) throw new Error('the queue is not there');
        return await link.call(() => record(events, share, ended, failed));
      },
      // What is asked of a life that is over is told to nobody.
      share: () => this.share() ?? { at: 0, full: true, sessions: [], gone: [], pools: [] },
      takeEnded: () => this.#queue?.takeEnded() ?? [],
      takeFailed: () => this.#queue?.takeFailed() ?? {},
      takeDisplaced: () => this.#queue?.takeDisplaced() ?? {},
      awaitsStart: () => this.#queue?.read('awaitsStart') ?? false,
      takeStarts: (starts) => {
        if (life === this.life) this.do((queue) => queue.do('takeStarts', starts));
      },
      takeAliases: async (aliases) => {
        if (life === this.life && this.#queue?.read('differs', aliases))
          this.do((queue) => queue.do('takeAliases', aliases));
      },
      after: (ms, run) => void timeline.after(ms, () => life === this.life && run()),
      failed: () => {},
    });
  }

  #armTick(): void {
    const at = this.#queue?.nextTick() ?? null;
    if (at === null || (this.#tick && this.#tick.at <= at)) return;
    if (this.#tick) this.#tick.planned.run = null;
    const { timeline } = this.#world;
    const planned = timeline.at(Math.max(at, timeline.now + 1), () => {
      this.#tick = null;
      this.do((queue) => queue.onTick(at));
    });
    this.#tick = { at, planned };
  }

  #setAlarm(at: number | null): void {
    if (this.#alarm) this.#alarm.planned.run = null;
    this.#alarm = null;
    if (at === null) return;
    const planned = this.#world.timeline.at(at, () => {
      this.#alarm = null;
      this.do((queue) => queue.onAlarm(at));
    });
    this.#alarm = { at, planned };
  }

  #ports(): Ports {
    const { timeline, random } = this.#world;
    const life = this.life;
    return {
      sql: this.disk,
      alarm: {
        get: () => this.#alarm?.at ?? null,
        set: (at) => this.#setAlarm(at),
        clear: () => this.#setAlarm(null),
      },
      undoable: this.disk.undoable,
      now: () => timeline.now,
      random: () => random.next(),
      connections: () => [...this.#connections],
      breakStream: () => {},
      closeAnswers: () => {},
      tellFleet: (event) => life === this.life && this.#report.tell(event),
      log: () => {},
    };
  }
}

/** The queue's end of one control socket. */
export class QueueConnection implements Connection {
  readonly id: string;
  readonly peer: Peer;
  readonly #world: Pick<QueueWorld, 'timeline' | 'jobSent'>;
  #session: Session | null = null;

  constructor(id: string, peer: Peer, world: Pick<QueueWorld, 'timeline' | 'jobSent'>) {
    this.id = id;
    this.peer = peer;
    this.#world = world;
  }

  load(): Session | null {
    return this.#session;
  }

  save(session: Session | null): void {
    this.#session = structuredClone(session);
  }

  lastHeardMs(): number {
    return this.#world.timeline.now;
  }

  send(frame: object): void {
    this.#world.timeline.after(FRAME_MS, () => this.peer.onFrame(frame as QueueFrame));
  }

  sendJob(frame: string | Uint8Array<ArrayBuffer>): void {
    this.#world.jobSent(this.peer.name);
    this.send(JSON.parse(typeof frame === 'string' ? frame : new TextDecoder().decode(frame)));
  }

  close(): void {
    this.#world.timeline.after(FRAME_MS, () => this.peer.onClose());
  }
}
