import { type FailureCause, isFinal, type Launch } from '../launch.ts';
import type { Decision, Observed, ObservedPool, PoolDecided, PoolMemory } from '../rule-types.ts';
import { type Breaker, poolBreaker } from './breaker.ts';
import type { Budget } from './budget.ts';
import { type Candidate, candidatesOf, choose, learnedKey, type Market } from './candidates.ts';
import type { Capacity } from './capacity.ts';
import { isOverdue, isStarting, isUnanswered, type StartSeconds } from './starts.ts';
import { inOrderOfVictims } from './victims.ts';
import { plural } from './words.ts';

export interface Asked {
  pool: ObservedPool;
  observed: Observed;
  market: Market;
  /** Counts down as launches are decided. */
  budget: Budget;
  memory: PoolMemory | undefined;
}

export interface Answer {
  decisions: Decision[];
  summary: PoolDecided;
  memory: PoolMemory | undefined;
}

/** Collects the decisions for one pool in one reconciliation. */
export class Round {
  readonly #asked: Asked;
  readonly #launches: Launch[];
  readonly #start: StartSeconds;
  readonly #capacity: Capacity;
  readonly #candidates: Candidate[];
  readonly #breaker: Breaker;
  readonly #decisions: Decision[] = [];
  readonly #ended = new Set<string>();
  #takenBack = new Set<string>();
  #launched = 0;
  wanted: number | null = null;
  text = '';
  inputs = '';

  constructor(asked: Asked, launches: Launch[], start: StartSeconds, capacity: Capacity) {
    this.#asked = asked;
    this.#launches = launches;
    this.#start = start;
    this.#capacity = capacity;
    this.#candidates = candidatesOf(asked.pool, asked.market);
    this.#breaker = poolBreaker(launches, asked.pool.forgiven_at, asked.market.now);
  }

  /** Workers that take jobs, and those that are starting. */
  get have(): number {
    const { ready, starting, others } = this.#capacity;
    return ready.length + starting.length + others;
  }

  /** Terminates starts that are overdue, and workers that are lost. */
  endWhatFailed(): void {
    const { market, observed } = this.#asked;
    for (const launch of this.#launches) {
      if (!this.#isHeard(launch)) continue;
      const progressedAt = observed.workers.get(launch.name)?.heartbeat?.progressed_at ?? null;
      if (!isOverdue(launch, this.#start, progressedAt, market.now)) continue;
      this.#end(launch, 'start_deadline', 'It was not ready within its start deadline.');
    }
    for (const launch of this.#capacity.lost) {
      if (this.#isHeard(launch)) this.#end(launch, 'lost', 'Its worker has not been connected for 10 min.');
    }
  }

  /** Terminates drained workers that run nothing any more. */
  endDrained(): void {
    const { cordoned } = this.#asked.observed;
    for (const launch of this.#launches) {
      if (launch.state !== 'draining' || this.#takenBack.has(launch.id)) continue;
      if (cordoned[launch.name] === 0) this.#end(launch, null, 'It is drained: it runs nothing any more.');
    }
  }

  growTo(target: number, why: string): void {
    let missing = target - this.have;
    for (const launch of this.#capacity.draining.filter(({ id }) => !this.#isDismissed(id))) {
      if (missing <= 0) break;
      this.#takenBack.add(launch.id);
      this.#decide({ kind: 'take_back', launch_id: launch.id, reason: why, inputs: this.inputs });
      missing -= 1;
    }
    const { spec } = this.#asked.pool;
    const alive = this.#launches.filter((launch) => !isFinal(launch)).length;
    // With no ready worker and a failed start, one probe at a time shows as much as many.
    const isProbe = this.#breaker.failures > 0 && this.#capacity.ready.length === 0;
    const most = isProbe ? 1 - this.#capacity.starting.length : Math.max(2, this.have);
    const count = Math.min(missing, spec.max - alive, most);
    for (let n = 0; n < count && this.#launch(why); n++);
    this.#replaceUnanswered();
    const ending = this.#launches.filter(({ state }) => state === 'terminating').length;
    if (missing > 0 && spec.max <= alive && ending > 0) {
      this.text = `${why} Places are free once ${plural(ending, 'worker')} that ${ending === 1 ? 'ends is' : 'end are'} gone.`;
    }
    if (this.#launched > 0) this.text = `${why} ${plural(this.#launched, 'worker')} launched.`;
    else if (this.#takenBack.size > 0) this.text = `${why} ${this.#takenBack.size} taken back.`;
  }

  shrinkTo(target: number, why: string, memory: PoolMemory): void {
    const { ready, starting, late } = this.#capacity;
    const isFree = (launch: Launch) => this.#isHeard(launch) && !this.#ended.has(launch.id);
    const victims = inOrderOfVictims(
      [...starting, ...ready].filter(isFree),
      this.#asked.observed.workers,
      memory.idle_since,
      (launch) => this.#costOf(launch),
    );
    const surplus = victims.slice(0, Math.max(0, this.have - target));
    for (const launch of [...surplus, ...late.filter(isFree)]) {
      const reason = `It is not needed: ${why}.`;
      if (isStarting(launch)) this.#end(launch, null, reason);
      else this.#decide({ kind: 'drain', launch_id: launch.id, reason, inputs: this.inputs });
    }
    if (surplus.length > 0) this.text = `${plural(surplus.length, 'worker')} given up: ${why}.`;
  }

  answer(memory: PoolMemory | undefined): Answer {
    const { pool } = this.#asked;
    const { ready, starting, late, draining, others } = this.#capacity;
    const summary: PoolDecided = {
      config_id: pool.config_id,
      wanted: this.wanted,
      ready: ready.length + others,
      starting: starting.length + late.length + this.#launched,
      draining: draining.length,
      waiting: pool.demand?.waiting ?? null,
      price_per_hour: this.#launches
        .filter((launch) => !isFinal(launch))
        .reduce((sum, { price_per_hour }) => sum + price_per_hour, 0),
      text: this.text,
      breaker: this.#breaker.kind === 'open' ? this.#breaker.why : null,
      machines: this.#candidates.map(({ learned }) => learned),
    };
    return { decisions: this.#decisions, summary, memory };
  }

  /** Terminates unanswered launches that the new ones replace, so that both do not come up. */
  #replaceUnanswered(): void {
    const reason = 'Nobody has answered its order, and another was launched in its place.';
    for (const launch of this.#capacity.late.filter(isUnanswered).slice(0, this.#launched)) {
      this.#end(launch, null, reason);
    }
  }

  /** @returns false when no more can be launched now; `text` then says why */
  #launch(why: string): boolean {
    const { budget, market, pool } = this.#asked;
    const breaker = this.#breaker;
    if (breaker.kind === 'open') {
      this.text = `${why} Launching is stopped until it is resumed: ${breaker.why}.`;
      return false;
    }
    if (breaker.kind === 'waiting') {
      this.text = `${why} The next start is tried in ${this.#seconds(breaker.until)}: ${breaker.why}.`;
      return false;
    }
    const choice = choose(candidatesOf(pool, market), market.now);
    if (choice.kind === 'none') {
      const next = choice.until === null ? '' : `, asked again in ${this.#seconds(choice.until)}`;
      this.text = `${why} None can be launched: ${choice.why}${next}.`;
      return false;
    }
    const { machine, learned } = choice.candidate;
    if (!budget.take(learned.price_per_hour)) {
      this.text = `${why} None can be launched: ${budget.inWords()}.`;
      return false;
    }
    market.taken.set(machine.provider, (market.taken.get(machine.provider) ?? 0) + 1);
    this.#launched += 1;
    const { price_per_hour } = learned;
    this.#decide({
      kind: 'launch',
      config_id: pool.config_id,
      machine,
      price_per_hour,
      reason: why,
      inputs: this.inputs,
    });
    return true;
  }

  #decide(decision: Decision): void {
    if ('launch_id' in decision) this.#ended.add(decision.launch_id);
    this.#decisions.push(decision);
  }

  #end(launch: Launch, cause: FailureCause | null, reason: string): void {
    if (this.#ended.has(launch.id)) return;
    this.#decide({ kind: 'terminate', launch_id: launch.id, cause, reason, inputs: this.inputs });
  }

  #isHeard(launch: Launch): boolean {
    return isHeard(this.#asked.observed, launch);
  }

  #isDismissed(id: string): boolean {
    return this.#asked.observed.dismissed.includes(id);
  }

  #costOf(launch: Launch): number {
    const speed = this.#asked.market.tokensPerSecond[learnedKey(launch.config_id, launch)];
    return speed ? launch.price_per_hour / speed : launch.price_per_hour;
  }

  #seconds(until: number): string {
    return `${Math.max(1, Math.round((until - this.#asked.market.now) / 1000))} s`;
  }
}

/** Whether the launch's provider has a fresh list; without one its machines are left alone. */
export function isHeard({ providers }: Observed, { provider }: Launch): boolean {
  return providers.find(({ name }) => name === provider)?.is_fresh ?? false;
}
