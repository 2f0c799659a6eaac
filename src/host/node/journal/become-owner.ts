import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../../durable/host.ts';
import { EXIT, UserError } from '../../../process/index.ts';
import { dialableHost, isEverywhere } from '../../../process/network.ts';
import { assertUsable } from '../../../state/check.ts';
import { lockState, makeFolder } from '../../../state/folder.ts';
import { listenError } from '../listen-error.ts';
import { type Claim, Follower } from './follower.ts';
import { FollowerServer } from './follower-server.ts';
import { LEASE_MS } from './held-lease.ts';
import type { Journal } from './journal.ts';
import { LeaseWatch } from './lease-watch.ts';
import { journalAt } from './open.ts';
import { Owner } from './owner.ts';
import { readPlace } from './place.ts';
import { FOLLOWER_PACE, SnapshotSchedule } from './snapshot-schedule.ts';

/** A start waits for the journal this long, ms. */
const REACH_WITHIN_MS = 30_000;
const REACH_AGAIN_MS = 1000;
/** The interval at which a follower asks for new entries, ms. */
const FOLLOW_EVERY_MS = 250;
/** The interval at which a start without `--follow` looks whether the lease of an earlier owner has run out, ms. */
const LEASE_EVERY_MS = 100;

export interface JournalSettings {
  /** The address of the journal. */
  journal: string;
  /** Whether to wait for the owner to be gone, if there is one. */
  follow: boolean;
  stateDir: string;
  host: string;
  port: number;
}

/**
 * Brings the state folder to the end of the journal, and makes this process its owner. A follower waits for that until
 * the owner is gone, and answers HTTP with `not_owner` meanwhile.
 * @param ended ends the wait, which then rejects with its reason
 * @throws UserError if the journal cannot be used or reached, does not belong to the folder, or has an owner
 */
export async function becomeOwner(settings: JournalSettings, log: Log, ended: AbortSignal): Promise<Owner> {
  const { stateDir } = settings;
  const journal = await journalAt(settings.journal);
  try {
    await reach(() => journal.open(), log, ended);
    await makeFolder(stateDir);
    const lock = await lockState(stateDir);
    try {
      const place = await readPlace(stateDir);
      if (place === null) await assertUsable(stateDir);
      const follower = await reach(() => Follower.open({ journal, stateDir, log }), log, ended);
      // The lock shows that the process which wrote these files is gone, even if its lease still runs.
      const ownEpoch = place?.mayBeAhead ? place.epoch : 0;
      const watch = new LeaseWatch();
      const waiting: Waiting = {
        ...{ journal, follower, watch, log, ended, ownEpoch },
        address: addressOf(settings),
      };
      const claiming = settings.follow ? follow(waiting, settings) : claimAlone(waiting);
      const claim = await claiming.catch(async (error) => {
        await follower.close();
        throw error;
      });
      log('info', 'this process is the owner of the journal', {
        entry: claim.entry.seq,
        epoch: claim.entry.epoch,
      });
      return new Owner({ journal, stateDir, claim, log });
    } finally {
      lock.release();
    }
  } catch (error) {
    await journal.close().catch(() => {});
    throw error;
  }
}

interface Waiting {
  journal: Journal;
  follower: Follower;
  watch: LeaseWatch;
  address: string;
  /** The epoch in which this folder was the owner's; 0: in none. */
  ownEpoch: number;
  log: Log;
  ended: AbortSignal;
}

/**
 * Does something with the journal, and tries again for a while if that fails.
 * @throws UserError at the end of that time; the reason of `ended`
 */
async function reach<T>(act: () => Promise<T>, log: Log, ended: AbortSignal): Promise<T> {
  const deadline = performance.now() + REACH_WITHIN_MS;
  for (let tries = 1; ; tries += 1) {
    try {
      return await act();
    } catch (error) {
      const { message } = error as Error;
      if (error instanceof UserError) throw error;
      if (performance.now() >= deadline) {
        throw new UserError(
          `The journal cannot be reached: ${message}. ` +
            'Start its server, or name another address (QUEUE_JOURNAL or --journal).',
          EXIT.journalUnreachable,
        );
      }
      if (tries === 1)
        log('warn', `the journal cannot be reached; it is tried for ${REACH_WITHIN_MS / 1000} s`, {
          error: message,
        });
      await sleep(REACH_AGAIN_MS, null, { signal: ended });
    }
  }
}

/** Becomes the owner once an earlier one's lease has run out. @throws UserError if that one goes on renewing it */
async function claimAlone(waiting: Waiting): Promise<Claim> {
  const { journal, log, ended } = waiting;
  const deadline = performance.now() + LEASE_MS + FOLLOW_EVERY_MS;
  for (;;) {
    const claim = await reach(() => tryClaim(waiting), log, ended);
    if (claim !== null) return claim;
    const lease = performance.now() >= deadline ? await reach(() => journal.lease(), log, ended) : null;
    if (lease?.isAlive) {
      throw new UserError(
        `The journal has an owner already${lease.address ? `, at ${lease.address}` : ''}. Start this queue with ` +
          '--follow (QUEUE_FOLLOW=true) to take over when that one is gone, or name another journal.',
      );
    }
    await sleep(LEASE_EVERY_MS, null, { signal: ended });
  }
}

/** Follows the owner until it is gone. */
async function follow(waiting: Waiting, settings: JournalSettings): Promise<Claim> {
  const { journal, follower, log, ended } = waiting;
  const server = await FollowerServer.listen(settings, () => follower.place).catch((error) => {
    throw listenError(error, settings, 'QUEUE');
  });
  const snapshots = new SnapshotSchedule(journal, FOLLOWER_PACE, {
    place: () => follower.place,
    save: () => follower.saveSnapshot(),
    log,
  });
  log('info', 'this process follows the journal, and takes over when its owner is gone', {
    entry: follower.place.seq,
  });
  let isAway = false;
  try {
    for (;;) {
      try {
        const claim = await tryClaim(waiting);
        if (claim !== null) return claim;
        server.followed((await journal.lease())?.address ?? '');
        if (isAway) log('info', 'the journal can be reached again', {});
        isAway = false;
      } catch (error) {
        if (error instanceof UserError) throw error;
        waiting.watch.failed();
        if (!isAway) log('warn', 'the journal cannot be followed now', { error: String(error) });
        isAway = true;
      }
      await sleep(FOLLOW_EVERY_MS, null, { signal: ended });
    }
  } finally {
    snapshots.end();
    await server.close();
  }
}

/** Applies what is new, and becomes the owner if nobody holds the lease. @returns null if somebody does */
async function tryClaim({ journal, follower, watch, address, ownEpoch }: Waiting): Promise<Claim | null> {
  await follower.catchUp();
  const lease = await journal.lease();
  const isHeld = (lease?.isAlive ?? false) && lease?.epoch !== ownEpoch;
  return watch.read(isHeld, performance.now()) ? await follower.claim(address) : null;
}

/** Returns the address that others are told: other machines reach a queue that listens everywhere by this one's name. */
function addressOf({ host, port }: JournalSettings): string {
  return `http://${isEverywhere(host) ? hostname() : dialableHost(host)}:${port}`;
}
