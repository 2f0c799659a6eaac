import { type TurnRequest, Turns, type TurnWord } from '../../src/worker/turns/turns.ts';
import { Random } from '../support/random.ts';
import type { Timeline } from './timeline.ts';

/** `ENGINE_AWAKE_SECONDS`, ms. */
export const AWAKE_MS = 3000;
/** What the `swap` command and its workers say to each other takes so long, ms. */
const WORD_MS = 1;
/** An engine that starts is up so much later at the most, ms. */
const SLACK_MS = 1000;
/** The longest answer, which hangs at its end, and a process that stands still before; ms. */
const TURN_WITHIN_MS = 10 * 60_000;

/** A member as its machine sees it. */
export interface GpuMember {
  readonly name: string;
  readonly isUp: boolean;
  readonly isRetired: boolean;
  /** Its process starts, and with it its engine. */
  boots(): void;
  hear(word: TurnWord): void;
  drain(): void;
}

/** Whether in this run the first two workers share a machine. */
export function haveSharedGpu(seed: number): boolean {
  return new Random(seed, 'gpu').chance(0.25);
}

/**
 * A machine whose workers share its GPU, as `worker-vllm swap` runs them: the real rule of turns, and the memory that one
 * engine's weights fill. When one worker ends all do, and the machine starts again.
 */
export class SharedGpu {
  readonly #timeline: Timeline;
  readonly #violated: (promise: string, message: string) => void;
  readonly #members: GpuMember[] = [];
  #turns: Turns;
  #isEnding = false;
  /** Whose weights are in memory. */
  readonly #weights = new Set<string>();
  /** By name, from when: it waits for its turn. */
  readonly #wantedAt = new Map<string, number>();

  constructor(timeline: Timeline, violated: (promise: string, message: string) => void) {
    this.#timeline = timeline;
    this.#violated = violated;
    this.#turns = this.#newTurns();
  }

  start(member: GpuMember): void {
    this.#members.push(member);
    this.#turns.want(member.name);
  }

  /** From a member, of the life of the machine in which it started. */
  teller(name: string): (word: TurnRequest) => void {
    const turns = this.#turns;
    return (word) =>
      void this.#timeline.after(WORD_MS, () => {
        if (word === 'asleep') return turns.asleep(name);
        if (turns.holder !== name) this.#wantedAt.set(name, this.#wantedAt.get(name) ?? this.#timeline.now);
        turns.want(name);
      });
  }

  /** A member's process has ended. */
  ended(name: string, restartMs: number): void {
    const isFirst = !this.#isEnding;
    this.#isEnding = true;
    this.#gone(name);
    for (const member of isFirst ? this.#members : []) {
      if (member.isUp) member.drain();
      else this.#gone(member.name);
    }
    if (this.#members.some(({ isUp }) => isUp) || this.#members.every(({ isRetired }) => isRetired)) return;
    this.#timeline.after(restartMs, () => {
      if (this.#members.some(({ isUp }) => isUp)) return;
      this.#isEnding = false;
      this.#wantedAt.clear();
      this.#turns = this.#newTurns();
      for (const { name } of this.#members) this.#turns.want(name);
    });
  }

  /** Its engine loads its weights. */
  fill(boot: string): void {
    this.#weights.add(boot);
    if (this.#weights.size > 1)
      this.#violated('one engine at a time has the GPU', [...this.#weights].join(' and '));
  }

  empty(boot: string): void {
    this.#weights.delete(boot);
  }

  /** A request meets an engine. @param awakeSince epoch ms, or since its process goes on */
  used(boot: string, awakeSince: number, jobId: string): void {
    if (!this.#weights.has(boot))
      this.#violated('a request meets an engine that is awake', `${jobId} at ${boot}`);
    const waits = [...this.#wantedAt.values()].map((at) => Math.max(at, awakeSince) + AWAKE_MS + SLACK_MS);
    if (waits.some((overAt) => this.#timeline.now > overAt))
      this.#violated('a turn ends', `${jobId} is let in at ${boot}, though its time was over`);
  }

  #gone(name: string): void {
    this.#wantedAt.delete(name);
    this.#turns.gone(name);
  }

  #newTurns(): Turns {
    return new Turns({
      tell: (name, word) => {
        const member = this.#members.find((one) => one.name === name)!;
        if (word === 'wake') this.#turnCame(name);
        if (word === 'wake' && !member.isUp && !this.#isEnding) member.boots();
        else this.#timeline.after(WORD_MS, () => member.hear(word));
      },
    });
  }

  #turnCame(name: string): void {
    const waitedMs = this.#timeline.now - (this.#wantedAt.get(name) ?? this.#timeline.now);
    this.#wantedAt.delete(name);
    if (waitedMs > TURN_WITHIN_MS) this.#violated('everyone has a turn', `${name} waited ${waitedMs} ms`);
  }
}
