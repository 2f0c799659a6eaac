import type { Driver } from '../../src/providers/driver.ts';
import type { Accidents } from './fakes/accidents.ts';
import type { FakeMachine } from './fakes/fake-provider.ts';
import type { VirtualClock } from './virtual-clock.ts';

/** A machine seen from above. */
export type SeenMachine = Pick<FakeMachine, 'name' | 'env'>;

/** A provider seen from above: FakeProvider, or something real that tells the same of itself. */
export interface SeenProvider {
  readonly accidents: Accidents;
  readonly alive: SeenMachine[];
  end(machine: SeenMachine, exitCode: number, detail?: string): void | Promise<void>;
  vanish(machine: SeenMachine): void | Promise<void>;
}

export interface DriverUnderTest {
  driver: Driver;
  provider: SeenProvider;
  /** The clock of the provider, and of the driver's pauses. */
  clock: VirtualClock;
  close?(): Promise<void>;
}

export interface ContractOptions {
  instance_type?: string;
  image?: string | null;
  /** The number of GPUs of each machine; 0 if the provider has machines without. */
  gpus?: number;
  /** Accidents that cannot happen to this provider, each with the reason. */
  impossible?: Partial<Record<keyof Accidents, string>>;
  /** Whether the provider tells a container's exit code. */
  tellsExitCodes?: boolean;
}
