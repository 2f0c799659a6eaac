import type { LaunchRecord } from '../../src/scheduler/launch.ts';
import { SchedulerHarness } from './scheduler-harness.ts';

/** What becomes of a launch: `serves` unless a test says otherwise. */
type Fate = 'serves' | 'never registers' | 'ends' | 'no capacity' | 'refused';

/** One pool whose workers are replaced: the launcher obeys and lists what there is, and workers connect at once. */
export class RollingPool {
  readonly fleet = new SchedulerHarness();
  /** By image. */
  readonly fates = new Map<string, Fate>();
  /** By image: the part of the requests that fails; each worker that serves answers one a second. */
  readonly errors = new Map<string, number>();
  /** With which exit code the workers end that end. */
  exitCode = 4;
  /** The fewest that took jobs, and the most machines, since `serving`. */
  fewest = Number.POSITIVE_INFINITY;
  most = 0;
  #pool: object = {};
  readonly #images = new Map<string, string>();
  readonly #ended = new Map<string, number>();

  /** Puts the pool in force with some fields changed. */
  apply(change: object): void {
    this.#pool = { slots: 1, scale_down_after: '1h', keep_warm: '1h', max: 5, ...this.#pool, ...change };
    this.fleet.apply(this.#pool);
  }

  /** The pool with so many workers that serve and have proved themselves. */
  serving(count: number, pool: object = {}): LaunchRecord[] {
    this.apply({ image: 'a', min: count, ...pool });
    this.pass(150);
    this.fewest = Number.POSITIVE_INFINITY;
    this.most = 0;
    return this.ready();
  }

  alive(): LaunchRecord[] {
    return this.fleet
      .rows()
      .filter(({ state, is_orphan }) => !is_orphan && state !== 'gone' && state !== 'failed');
  }

  ready(): LaunchRecord[] {
    return this.alive().filter(({ state }) => state === 'ready');
  }

  /** The images of those that serve, sorted. */
  images(): string {
    return this.ready()
      .map(({ name }) => this.#images.get(name))
      .sort()
      .join('');
  }

  /** The images of all machines, in any state, sorted. */
  allImages(): string {
    return this.alive()
      .map(({ name }) => this.#images.get(name) ?? '?')
      .sort()
      .join('');
  }

  get shown() {
    return this.fleet.scheduler.scaling()!.pools.get('chat')!;
  }

  get text(): string {
    return this.shown.decision?.text ?? '';
  }

  /** A worker ends by itself. */
  dies({ name }: LaunchRecord, exitCode = 4): void {
    this.fleet.sessions = this.fleet.sessions.filter(({ worker_id }) => worker_id !== name);
    this.#ended.set(name, exitCode);
  }

  /** So many seconds, or until something is the case. */
  pass(seconds: number, until = () => false): void {
    for (let s = 0; s < seconds && !until(); s += 1) {
      this.#launcher();
      for (const { worker_id, state } of this.fleet.sessions) {
        if (state !== 'ready') continue;
        const errors = this.errors.get(this.#images.get(worker_id) ?? '') ?? 0;
        const before = this.fleet.done.get(worker_id) ?? { requests: 0, errors: 0 };
        const requests = before.requests + 1;
        this.fleet.done.set(worker_id, { requests, errors: Math.floor(requests * errors) });
      }
      this.fleet.reconcile();
      this.fewest = Math.min(this.fewest, this.ready().length);
      this.most = Math.max(this.most, this.alive().length);
    }
  }

  #launcher(): void {
    const listed = this.alive()
      .filter(({ external_id }) => external_id !== null)
      .map(({ name }) => {
        const exit_code = this.#ended.get(name);
        return exit_code === undefined
          ? { name, external_id: name }
          : { name, external_id: name, state: 'ended' as const, exit_code, detail: 'the last words' };
      });
    for (const order of this.fleet.list(listed).orders) {
      const { launch_id, name } = order;
      if (order.kind === 'terminate') {
        this.fleet.result(launch_id, order.order, { kind: 'terminated' });
        this.fleet.sessions = this.fleet.sessions.filter(({ worker_id }) => worker_id !== name);
        continue;
      }
      const image = order.pool.image ?? '';
      const fate = this.fates.get(image) ?? 'serves';
      if (fate === 'no capacity') {
        this.fleet.result(launch_id, order.order, { kind: 'no_capacity', detail: 'none is free' });
        continue;
      }
      if (fate === 'refused') {
        this.fleet.result(launch_id, order.order, { kind: 'rejected', detail: 'there is no such image' });
        continue;
      }
      this.#images.set(name, image);
      this.fleet.result(launch_id, order.order, { kind: 'launched', external_id: name, price_per_hour: 2 });
      if (fate === 'serves') this.fleet.session(name, { capacity: 1 });
      if (fate === 'ends') this.#ended.set(name, this.exitCode);
    }
  }
}
