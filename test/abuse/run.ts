import { until } from '../support/poll.ts';
import { ATTACKS, type Size } from './attacks.ts';
import {
  databasesOf,
  type Footprint,
  footprintOf,
  isAlive,
  PeakWatch,
  startTarget,
  type Target,
} from './target.ts';
import { ask, type Testimony, Witness } from './witness.ts';

/** What one attack did. */
export interface Finding {
  attack: string;
  about: string;
  outcome: string;
  witness: Testimony;
  peak: Footprint;
  /** Databases that were not there before. */
  newDatabases: number;
  /** What should not have been, in words. */
  faults: string[];
}

/** The queue may take no more than this, whatever comes, MB, */
const MOST_RESIDENT_MB = 512;
/** and so much for each connection above a thousand that was ever open at a time, MB. */
const CONNECTION_MB = 0.05;
const FREE_CONNECTIONS = 1000;
/** For each connection. */
const DESCRIPTORS = 1;
/** The state folder may grow by no more than this in one attack, MB: the ledger, a write-ahead log. */
const MOST_DISK_MB = 8;
/** Descriptors that may stay open after an attack: connections that are kept alive. */
const MOST_DESCRIPTORS_LEFT = 64;
/** The witness must be answered within this once an attack is over, and connections be gone, which idle for 65 s, ms. */
const RECOVERY_MS = 90_000;

const ENDED = 'the queue ended';

/** Runs every attack against one road, one after another, a well-behaved caller beside each. */
export async function abuse(
  size: Size,
  only: string | null,
  say: (line: string) => void,
): Promise<Finding[]> {
  const target = await startTarget();
  // The first request makes the databases that a road has.
  await ask(target.queue.url);
  const findings: Finding[] = [];
  let mostDescriptors = 0;
  for (const attack of ATTACKS) {
    if (only !== null && !attack.name.includes(only)) continue;
    say(`${attack.name}: ${attack.about(size)}`);
    const before = footprintOf(target);
    const databases = databasesOf(target);
    const watch = new PeakWatch(target);
    const witness = new Witness(target.queue.url);
    const outcome = await attack.run(target, size);
    const testimony = await witness.stop();
    if (!isAlive(target.pid)) {
      say(`  FAULT: ${ENDED}`);
      const end = { outcome, witness: testimony, peak: watch.stop(), newDatabases: 0, faults: [ENDED] };
      return [...findings, { attack: attack.name, about: attack.about(size), ...end }];
    }
    const faults = await recovery(target, before);
    const peak = watch.stop();
    const newDatabases = Math.max(0, databasesOf(target) - databases);
    mostDescriptors = Math.max(mostDescriptors, peak.descriptors);
    const most = mostResident(mostDescriptors);
    if (peak.residentMegabytes > most) faults.push(`the queue took ${peak.residentMegabytes} MB of ${most}`);
    faults.push(...judge(before, peak, testimony, newDatabases));
    const finding = { attack: attack.name, about: attack.about(size), outcome, witness: testimony };
    findings.push({ ...finding, peak, newDatabases, faults });
    say(`  ${outcome}`);
    say(
      `  witness: ${testimony.answered} answered, ${testimony.toldToWait} told to wait, ` +
        `${testimony.failed.length} failed, slowest ${testimony.slowestMs} ms; ` +
        `queue: ${peak.residentMegabytes} MB, ${peak.descriptors} descriptors`,
    );
    for (const fault of faults) say(`  FAULT: ${fault}`);
  }
  return findings;
}

/** Waits for the road to be as before; what does not come back is a fault. */
async function recovery(target: Target, before: Footprint): Promise<string[]> {
  const faults: string[] = [];
  const limit = { timeoutMs: RECOVERY_MS, everyMs: 200 };
  const check = async (probe: () => unknown, what: string) => {
    await until(probe, what, limit).catch((error: Error) => faults.push(error.message));
  };
  await check(async () => (await ask(target.queue.url)) === 'answered', 'a caller is answered again');
  await check(
    () => footprintOf(target).descriptors <= before.descriptors + MOST_DESCRIPTORS_LEFT,
    `connections are gone (there were ${before.descriptors} descriptors before)`,
  );
  return faults;
}

/** @param descriptors that were ever open at a time @returns MB */
function mostResident(descriptors: number): number {
  const connections = Math.floor(descriptors / DESCRIPTORS);
  return Math.round(MOST_RESIDENT_MB + CONNECTION_MB * Math.max(0, connections - FREE_CONNECTIONS));
}

function judge(before: Footprint, peak: Footprint, witness: Testimony, newDatabases: number): string[] {
  const faults: string[] = [];
  for (const failure of new Set(witness.failed)) faults.push(`the witness was failed: ${failure}`);
  if (witness.answered + witness.toldToWait === 0) faults.push('the witness heard nothing');
  const grown = peak.diskMegabytes - before.diskMegabytes;
  if (grown > MOST_DISK_MB) faults.push(`the state folder grew by ${grown.toFixed(1)} MB`);
  if (newDatabases > 0) faults.push(`${newDatabases} databases were made`);
  return faults;
}
