import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ObjectHost } from '../../src/durable/host.ts';
import { HeldObjects } from '../../src/host/node/objects/held-objects.ts';
import { OpenObjects } from '../../src/host/node/objects/open-objects.ts';
import { stubsOf } from '../../src/host/node/objects/stubs.ts';

/** A class of objects that a host holds. */
interface HostedClass<Hosted> {
  readonly prototype: Hosted;
}

/** An object of one class as the Node host holds it, with a database in a folder of its own. */
export interface HeldObject<Hosted> {
  /** Asks it, by copies of what is given and answered. */
  ask: Hosted;
  /** Returns the host that its newest life was given. */
  host(): ObjectHost<never>;
  /** The clock was set back: the next call makes the next object. */
  setClockBack(): Promise<void>;
  end(): Promise<void>;
}

export async function holdObject<Hosted extends object>(
  { prototype }: HostedClass<Hosted>,
  make: (host: ObjectHost<never>) => Hosted,
): Promise<HeldObject<Hosted>> {
  const dataDir = await mkdtemp(join(tmpdir(), 'object-'));
  const hosts: ObjectHost<never>[] = [];
  const objects = new HeldObjects({
    dataDir,
    open: new OpenObjects(1),
    make: (_kind, host) => {
      hosts.push(host);
      return make(host);
    },
    log: () => {},
    fatal: (error) => {
      throw error;
    },
  });
  const held = objects.of('object', 'q');
  return {
    ask: stubsOf({ prototype })({ held, caller: null }) as unknown as Hosted,
    host: () => hosts.at(-1)!,
    setClockBack: () => held.beginAnew(),
    end: async () => {
      await objects.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}
