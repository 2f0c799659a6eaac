import type { LauncherAnswer, LauncherReport } from '../../src/scheduler/rpc.ts';
import type { Violation } from '../simulation/oracle.ts';
import { quiescent, Timeline } from '../simulation/timeline.ts';
import { FakeProvider } from '../support/fakes/fake-provider.ts';
import { Random } from '../support/random.ts';
import { Callers } from './callers.ts';
import { FaultHand } from './fault-hand.ts';
import { FleetHost } from './fleet-host.ts';
import { LauncherProcess } from './launcher-process.ts';
import { Lists } from './lists.ts';
import { Machines } from './machines.ts';
import { ObjectLink } from './object-link.ts';
import { CALM_SECONDS, type FleetPlan, secondsOfWork } from './plan.ts';
import { Promises } from './promises.ts';
import { QueueHost } from './queue-host.ts';

export interface FleetResult {
  violation: Violation | null;
  /** What happened, a line each. */
  lines: string[];
  steps: number;
  launches: number;
}

/** One plan from its beginning to long after the last fault and the last job. */
export async function simulateFleet(plan: FleetPlan): Promise<FleetResult> {
  const world = new FleetWorld(plan);
  return await world.run();
}

/** All that there is in one run: queue, scheduler, launcher, providers, machines. */
class FleetWorld {
  readonly plan: FleetPlan;
  readonly timeline = new Timeline();
  readonly link: ObjectLink;
  readonly queue: QueueHost;
  readonly callers: Callers;
  /** By the name in the spec. */
  readonly providers: Record<'cloud' | 'other', FakeProvider>;
  readonly machines: Machines;
  readonly host: FleetHost;
  readonly promises: Promises;
  readonly random: Random;
  readonly lines: string[] = [];
  /** What a sync may suffer on its way. */
  network = { isCut: false, answersLost: 0, doubles: false };
  calls = { launcherDies: 0, listIsEmpty: 0 };
  readonly #lists = new Lists(() => this.timeline.now);
  readonly #faults: FaultHand;
  #launcher: LauncherProcess;

  constructor(plan: FleetPlan) {
    this.plan = plan;
    this.random = new Random(plan.seed, 'world');
    const clock = { now: () => this.timeline.now };
    this.providers = { cloud: new FakeProvider(clock), other: new FakeProvider(clock) };
    this.providers.other.prices.set('big', 2);
    this.#faults = new FaultHand(this);
    const { timeline } = this;
    const random = (name: string) => new Random(plan.seed, name);
    this.link = new ObjectLink(timeline, random('link'));
    this.queue = new QueueHost({
      timeline,
      random: random('queue'),
      link: this.link,
      record: (...told) => this.host.record(...told),
      jobSent: (workerId) => this.promises.seam.jobSent(workerId),
      isUpAgain: () => this.callers.queueIsUpAgain(),
    });
    this.host = new FleetHost(plan, {
      timeline,
      random: random('scheduler'),
      queue: this.queue,
      committed: () => this.promises.committed(),
    });
    this.callers = new Callers({
      queue: this.queue,
      link: this.link,
      choose: (model) => this.host.choose(model),
      turnedAway: (...told) => this.promises.seam.turnedAway(...told),
      now: () => timeline.now,
    });
    const all = Object.values(this.providers);
    this.machines = new Machines(plan, all, {
      timeline,
      queue: this.queue,
      lengthOf: (jobId) => this.callers.lengthOf(jobId),
      mayRegister: (name) => !plan.hasTokens || this.#isTokenGood(name),
      heartbeat: (beat) => this.host.heartbeat(beat),
    });
    this.promises = new Promises({
      plan,
      disk: this.host.disk,
      queue: this.queue,
      host: this.host,
      link: this.link,
      machines: this.machines,
      providers: this.providers,
      now: () => timeline.now,
      lists: this.#lists,
      listsLag: () => this.#faults.listsLag(),
      disturbedAt: () => this.#faults.disturbedAt(),
      resumedAt: () => this.#faults.resumedAt,
    });
    for (const [name, provider] of Object.entries(this.providers)) this.#watch(name, provider);
    for (const provider of all)
      provider.create({ name: 'wv-foreign-chat-0123456789', instance_type: 'small', env: {} });
    this.#launcher = this.#startLauncher();
  }

  async run(): Promise<FleetResult> {
    const { plan, timeline } = this;
    const begin = timeline.now;
    for (const [config_id, jobs] of Object.entries(plan.jobs)) {
      for (const job of jobs) {
        timeline.at(begin + job.at * 1000, () => this.callers.bring(config_id, job));
      }
    }
    for (const fault of plan.faults) timeline.at(begin + fault.at * 1000, () => this.#faults.begin(fault));
    for (const [index, one] of plan.rollouts.entries())
      timeline.at(begin + one.at * 1000, () => this.#faults.roll(one, plan.rollouts.slice(0, index)));
    timeline.after(0, () => this.#second());
    const plannedEnd = begin + plan.seconds * 1000;
    // One slot has run all jobs by then, one after the other: what still runs never ends.
    const latest = plannedEnd + secondsOfWork(plan) * 1000;
    const calmSince = () => Math.min(latest, Math.max(plannedEnd, this.promises.workedAt));
    const isOver = () => timeline.now >= calmSince() + CALM_SECONDS * 1000;
    while (!isOver() && this.promises.violation === null && timeline.step()) {
      await quiescent();
      while (await this.host.signed()) await quiescent();
    }
    if (this.promises.violation === null) this.promises.checkEnd();
    this.host.disk.close();
    this.queue.disk.close();
    const { violation, rows } = this.promises;
    if (violation) this.note(`VIOLATED ${violation.promise}: ${violation.message}`);
    return { violation, lines: this.lines, steps: timeline.steps, launches: rows.size };
  }

  /** For whoever reads what happened. */
  note(line: string): void {
    const seconds = Math.round((this.timeline.now - Timeline.START) / 1000);
    this.lines.push(`${String(seconds).padStart(5)} s  ${line}`);
  }

  /** As by `kill -9`; it is back after a while, at times so late that its orders are given again first. */
  killLauncher(): void {
    if (this.#launcher.isDead) return;
    this.note('the launcher is killed');
    this.#faults.strikes();
    this.#launcher.kill();
    this.timeline.after(this.random.wait(90_000, 240_000), () => {
      this.#launcher = this.#startLauncher();
    });
  }

  poolsChanged(): void {
    this.promises.rollouts.changed();
  }

  #startLauncher(): LauncherProcess {
    return new LauncherProcess({
      timeline: this.timeline,
      random: this.random,
      providers: { dstack: this.providers.cloud, vast: this.providers.other },
      sync: (report) => this.#sync(report),
      calls: this.calls,
      died: () => this.killLauncher(),
    });
  }

  async #sync(report: LauncherReport): Promise<LauncherAnswer> {
    await this.timeline.sleep(this.random.wait(50, 2000));
    if (this.network.isCut) throw new Error('no network');
    this.#lists.sent(report, this.promises.rows.values());
    const answer = await this.host.sync(report);
    this.#lists.taken(report);
    for (const order of answer.orders) this.note(`${order.kind} ${order.name} #${order.order}`);
    if (this.network.answersLost > 0 && answer.orders.length > 0) {
      this.network.answersLost -= 1;
      throw new Error('the answer is lost');
    }
    if (!this.network.doubles) return answer;
    // A repeated request is taken twice, too.
    const again = await this.host.sync(report);
    return { ...again, orders: [...answer.orders, ...answer.orders, ...again.orders] };
  }

  /** Without a queue that asks for tokens a worker that was given up may register. */
  #isTokenGood(name: string): boolean {
    // Names end with the launch's id.
    return Boolean(this.host.rules?.scheduler.workerOf(name.slice(-10)));
  }

  #second(): void {
    const now = this.timeline.now;
    this.machines.pass(now);
    this.promises.check();
    this.timeline.after(1000, () => this.#second());
  }

  /** Tells the promises what is done at a provider. */
  #watch(name: string, provider: FakeProvider): void {
    const create = provider.create.bind(provider);
    provider.create = (request) => {
      const reply = create(request);
      this.note(`${name} creates ${request.name}: ${reply.reply}`);
      const machine = provider.machines.at(-1);
      if (machine?.name === request.name && !request.name.startsWith('wv-foreign')) {
        this.promises.created(name, machine);
      }
      return reply;
    };
    const destroy = provider.destroy.bind(provider);
    provider.destroy = (id) => {
      const machine = provider.find(id);
      if (machine) this.promises.destroyed(machine);
      const reply = destroy(id);
      this.note(`${name} destroys ${machine?.name ?? id}: ${reply}`);
      return reply;
    };
  }
}
