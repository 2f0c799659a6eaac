import type { EngineAnswer, EngineCall } from '../../src/engine/client/types.ts';
import type { Clock } from '../../src/worker/clock.ts';
import type { Random } from '../support/random.ts';
import type { SharedGpu } from './shared-gpu.ts';

interface SleepPorts {
  gpu: SharedGpu;
  clock: Clock;
  /** On the world's clock, epoch ms. */
  now(): number;
  random: Random;
  boot: string;
  /** Until when its worker stands still, epoch ms. */
  frozenUntil(): number;
  /** Share of routes that fail, now. */
  trouble(): number;
  /** Requests that it answers. */
  open(): number;
  violated(promise: string, message: string): void;
}

/** The sleep mode of an engine that shares its GPU: its weights are in memory from its start on, until it sleeps. */
export class SleepMode {
  readonly #ports: SleepPorts;
  #awakeSince: number;

  constructor(ports: SleepPorts) {
    this.#ports = ports;
    this.#awakeSince = ports.now();
    ports.gpu.fill(ports.boot);
  }

  /** A route that it has for this; null: it is another. */
  route({ path }: EngineCall): Promise<EngineAnswer> | null {
    if (path === '/sleep?level=1') return this.#sleep();
    return path === '/wake_up' ? this.#wake() : null;
  }

  /** A request for an answer. */
  used(jobId: string): void {
    const { gpu, boot, frozenUntil } = this.#ports;
    gpu.used(boot, Math.max(this.#awakeSince, frozenUntil()), jobId);
  }

  /** Its process is gone. */
  die(): void {
    this.#ports.gpu.empty(this.#ports.boot);
  }

  async #sleep(): Promise<EngineAnswer> {
    const { gpu, boot, random, trouble, open, violated } = this.#ports;
    await this.#takeTime();
    if (random.chance(trouble())) return answer(500);
    if (open() > 0) violated('what runs ends before its engine sleeps', `${open()} at ${boot}`);
    gpu.empty(boot);
    return answer(200);
  }

  async #wake(): Promise<EngineAnswer> {
    const { gpu, boot, random, trouble, now } = this.#ports;
    if (random.chance(trouble())) return answer(500);
    gpu.fill(boot);
    await this.#takeTime();
    this.#awakeSince = now();
    return answer(200);
  }

  #takeTime(): Promise<void> {
    const { clock, random } = this.#ports;
    return new Promise((resolve) => clock.setTimeout(resolve, 1 + random.wait(2000)));
  }
}

function answer(status: number): EngineAnswer {
  async function* body(): AsyncGenerator<Uint8Array> {}
  return { status, headers: {}, body: body() };
}
