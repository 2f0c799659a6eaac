import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../../test/support/random.ts';
import type { Cluster } from './cluster.ts';
import type { Member } from './member.ts';
import { cut } from './network.ts';

/** The target of a fault. */
interface Target {
  cluster: Cluster;
  owner: Member;
  follower: Member;
  random: Random;
  /** Notes that from now on the other member has to take over, and waits until it has. */
  takeover(how: 'kill' | 'term' | 'partition' | 'stop'): Promise<void>;
}

/** Does a fault, and holds it for its time; afterwards everything is healed, and what has ended is started again. */
type Fault = (target: Target) => Promise<void>;

const HOUR_MS = 3_600_000;
/** Longer than a lease. */
const HOLD_MS = { least: 4000, most: 10_000 };
const STOPPED_MS = 60_000;
const DISK_FULL_MS = 6000;

/** Every fault, by its name; `--only` takes the words before the dash as well. */
export const FAULTS: Record<string, Fault> = {
  'kill-owner': async ({ owner, takeover }) => {
    await owner.signal('SIGKILL');
    await takeover('kill');
  },
  'term-owner': async ({ owner, takeover }) => {
    const ending = owner.signal('SIGTERM');
    await takeover('term');
    await ending;
  },
  'kill-follower': async ({ follower, random }) => {
    await follower.signal('SIGKILL');
    await hold(random);
  },
  'kill-gateways': async ({ cluster, random }) => {
    random.pick(cluster.gateways).kill('SIGKILL');
    await sleep(random.below(2000));
    if (random.chance(0.5)) random.pick(cluster.gateways).kill('SIGKILL');
    await sleep(2000);
  },
  'stop-owner': async ({ owner, takeover }) => {
    const from = performance.now();
    await owner.signal('SIGSTOP');
    await takeover('stop');
    await sleep(Math.max(0, from + STOPPED_MS - performance.now()));
    await owner.signal('SIGCONT');
    await sleep(3000);
  },
  'partition-owner-journal': async ({ cluster, owner, takeover, random }) => {
    cut(owner.machine, cluster.journal.host);
    cut(cluster.journal.host, owner.machine);
    await takeover('partition');
    await hold(random);
  },
  'partition-to-journal': async ({ cluster, owner, takeover, random }) => {
    cut(owner.machine, cluster.journal.host);
    await takeover('partition');
    await hold(random);
  },
  'partition-from-journal': async ({ cluster, owner, takeover, random }) => {
    cut(cluster.journal.host, owner.machine);
    await takeover('partition');
    await hold(random);
  },
  'partition-owner-gateways': async ({ owner, random }) => {
    cut(owner.machine, 'edge');
    cut('edge', owner.machine);
    await hold(random);
  },
  'partition-to-gateways': async ({ owner, random }) => {
    cut(owner.machine, 'edge');
    await hold(random);
  },
  'partition-from-gateways': async ({ owner, random }) => {
    cut('edge', owner.machine);
    await hold(random);
  },
  'partition-follower-journal': async ({ cluster, follower, random }) => {
    cut(follower.machine, cluster.journal.host);
    cut(cluster.journal.host, follower.machine);
    await hold(random);
  },
  'clock-owner': async ({ owner, random }) => {
    owner.setClock(random.chance(0.5) ? HOUR_MS : -HOUR_MS);
    await hold(random);
  },
  'clock-follower': async ({ owner, follower, takeover, random }) => {
    follower.setClock(random.chance(0.5) ? HOUR_MS : -HOUR_MS);
    await hold(random);
    await owner.signal('SIGKILL');
    await takeover('kill');
  },
  'clock-journal': async ({ cluster, random }) => {
    cluster.journal.setClock(random.chance(0.5) ? HOUR_MS : -HOUR_MS);
    await hold(random);
  },
  'disk-owner': async ({ owner }) => {
    owner.disk.fill();
    await sleep(DISK_FULL_MS);
  },
  'disk-follower': async ({ follower }) => {
    follower.disk.fill();
    await sleep(DISK_FULL_MS);
  },
  'power-owner': async ({ owner, takeover }) => {
    await owner.losePower();
    await takeover('kill');
  },
  'power-both': async ({ owner, follower }) => {
    await Promise.all([owner.losePower(), follower.losePower()]);
  },
  'restart-journal': async ({ cluster, random }) => {
    await cluster.journal.restart();
    await hold(random);
  },
  'failover-journal': async ({ cluster, random }) => {
    await cluster.journal.failOver();
    await hold(random);
  },
};

export const FAULT_NAMES = Object.keys(FAULTS);

/** Returns the faults of these names, or that begin with these words. */
export function faultsOf(names: readonly string[]): string[] {
  return FAULT_NAMES.filter((name) => names.some((only) => name === only || name.startsWith(`${only}-`)));
}

/** Returns the faults in the order in which a run does them: all in turn, each round in an order of its own. */
export function* inTurn(names: readonly string[], random: Random): Generator<string> {
  for (;;) {
    const left = [...names];
    while (left.length > 0) yield left.splice(random.below(left.length), 1)[0]!;
  }
}

async function hold(random: Random): Promise<void> {
  await sleep(random.int(HOLD_MS.least, HOLD_MS.most));
}
