import { graceMsOf } from '../../src/worker/notices/notice.ts';
import type { TurnWord } from '../../src/worker/turns/turns.ts';
import { Worker } from '../../src/worker/worker.ts';
import { Random } from '../support/random.ts';
import type { Link } from './network.ts';
import type { WorkerPlan } from './plan.ts';
import type { GpuMember, SharedGpu } from './shared-gpu.ts';
import { Boot, type Surroundings } from './worker-boot.ts';
import { WorkerDisk } from './worker-disk.ts';

/** How long a worker that ended by itself takes to be started again, ms. */
const RESTART_MS = 1500;
/** How long its engine takes to start, ms. */
const ENGINE_START_MS = 800;
/** How long it takes to find that an engine is well after all that failed a job as a dying one does, ms. */
const DOUBTED_MS = 5;

/** A worker as its machine runs it: ends, is started again, its network comes and goes. */
export class WorkerProcess implements GpuMember {
  readonly plan: WorkerPlan;
  readonly #around: Surroundings;
  #boot: Boot | null = null;
  #boots = 0;
  readonly disk: WorkerDisk;
  readonly #gpu: SharedGpu | null;
  isRetired = false;
  #awayUntil = 0;

  /** @param gpu that it shares with others */
  constructor(around: Surroundings, plan: WorkerPlan, gpu: SharedGpu | null) {
    this.#gpu = plan.sharesGpu ? gpu : null;
    this.#around = around;
    this.plan = plan;
    this.disk = new WorkerDisk(new Random(around.plan.seed, `disk ${plan.name}`));
  }

  get boot(): Boot | null {
    return this.#boot;
  }

  get name(): string {
    return this.plan.name;
  }

  get isUp(): boolean {
    return this.#boot !== null;
  }

  start(): void {
    if (this.#gpu) this.#gpu.start(this);
    else this.boots();
  }

  boots(): void {
    const { timeline, trace } = this.#around;
    const boot = new Boot(this.#around, this.plan, ++this.#boots, this.disk, this.#gpu, {
      ended: () => {
        this.#around.oracle.bootDied(boot.boot);
        boot.end(false);
        this.disk.processEnded();
        if (this.#boot !== boot) return;
        this.#boot = null;
        if (this.#gpu) this.#gpu.ended(this.name, RESTART_MS);
        else if (!this.isRetired) timeline.after(RESTART_MS, () => this.boots());
      },
      engineDoubted: (message) => {
        boot.worker.engineUnhealthy(message);
        this.#onBoot(boot, DOUBTED_MS, () => boot.engineHealthy());
      },
      canDial: () => boot.isAlive && this.#awayUntil <= timeline.now,
    });
    this.#boot = boot;
    trace.say(`${boot.boot} starts`);
    boot.worker.start();
    this.#onBoot(boot, ENGINE_START_MS, () => {
      boot.engineHealthy();
    });
  }

  kill(downMs: number, isPowerLoss: boolean): void {
    const boot = this.#boot;
    if (!boot) return;
    this.#boot = null;
    this.#around.oracle.bootDied(boot.boot);
    boot.end(isPowerLoss);
    this.disk.processEnded();
    if (this.#gpu) this.#gpu.ended(this.name, downMs);
    else this.#around.timeline.after(downMs, () => this.boots());
  }

  freeze(ms: number): void {
    if (!this.#boot) return;
    this.#boot.frozenUntil = Math.max(this.#boot.frozenUntil, this.#around.timeline.now + ms);
    this.#trouble(ms);
  }

  partition(ms: number): void {
    this.#awayUntil = Math.max(this.#awayUntil, this.#around.timeline.now + ms);
    this.cut('both', 'both');
    this.#trouble(ms);
  }

  cut(channel: 'control' | 'answer' | 'both', unseenBy: 'nobody' | 'worker' | 'queue' | 'both'): void {
    for (const link of this.#openLinks(channel)) link.cut(unseenBy);
    this.#trouble(0);
  }

  stall(direction: 'up' | 'down', ms: number): void {
    const until = this.#around.timeline.now + ms;
    for (const link of this.#openLinks('both')) link.stall(direction, until);
    this.#trouble(ms);
  }

  /** A word of the `swap` command. */
  hear(word: TurnWord): void {
    const boot = this.#boot;
    if (boot) this.#onBoot(boot, 0, () => boot.hear(word));
  }

  drain(secondSignalAfterMs: number | null = null): void {
    const boot = this.#boot;
    if (!boot) return;
    this.#onBoot(boot, 0, () => {
      this.#around.oracle.bootDrains(boot.boot);
      boot.worker.drain();
    });
    if (secondSignalAfterMs !== null) this.#onBoot(boot, secondSignalAfterMs, () => boot.worker.force());
  }

  /** The machine is taken away after a notice. A base worker knows no reason for a drain. */
  takeMachine(noticeMs: number): void {
    const boot = this.#boot;
    if (!boot) return;
    const { oracle, timeline } = this.#around;
    const endsAtMs = timeline.now + noticeMs;
    this.#onBoot(boot, 0, () => {
      oracle.bootDrains(boot.boot);
      const graceMs = graceMsOf({ from: 'the provider', endsAtMs }, timeline.now, 0);
      if (boot.worker instanceof Worker) boot.worker.drain(graceMs / 1000, true);
      else boot.worker.drain();
    });
    timeline.after(noticeMs, () => {
      if (this.#boot === boot) this.kill(RESTART_MS, true);
    });
  }

  /** Ends for good, in order. */
  retire(): void {
    this.isRetired = true;
    this.drain();
  }

  fillDisk(ms: number): void {
    this.disk.isFull = true;
    this.#around.timeline.after(ms, () => {
      this.disk.isFull = false;
    });
  }

  /** More waits in the engine than it can do: the worker takes no more for a while. */
  floodEngine(ms: number): void {
    const boot = this.#boot;
    if (!boot) return;
    boot.engine.waiting = 5;
    this.#around.timeline.after(ms, () => {
      boot.engine.waiting = 0;
    });
  }

  engineDies(): void {
    const boot = this.#boot;
    if (!boot) return;
    boot.engine.die();
    this.#around.oracle.engineDied(boot.boot);
    this.#onBoot(boot, 0, () => boot.worker.engineFailed('killed', true));
  }

  engineUnhealthy(ms: number): void {
    const boot = this.#boot;
    if (!boot) return;
    this.#onBoot(boot, 0, () => {
      boot.worker.engineUnhealthy('silent');
      this.#onBoot(boot, ms, () => boot.engineHealthy());
    });
  }

  #openLinks(channel: 'control' | 'answer' | 'both'): Link[] {
    const links = this.#boot?.links ?? [];
    return links.filter((link) => link.isOpen && (channel === 'both' || link.channel === channel));
  }

  #onBoot(boot: Boot, ms: number, run: () => void): void {
    const { timeline } = this.#around;
    timeline.after(ms, () => {
      if (!boot.isAlive) return;
      if (boot.frozenUntil > timeline.now) this.#onBoot(boot, boot.frozenUntil - timeline.now, run);
      else run();
    });
  }

  #trouble(ms: number): void {
    this.#around.oracle.trouble(this.plan.name, ms);
  }
}
