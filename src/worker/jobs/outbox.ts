import { withTimeout } from '../../process/clock.ts';
import { Outage } from '../../process/outage.ts';
import { bounds, fitsUtf8, type JobRef, writeJson } from '../../protocol/index.ts';
import type { Ports } from '../ports.ts';
import type { Session } from '../session/session.ts';
import type { HeldJobs, Settled } from './held-jobs.ts';
import { frameText, type Settlement, type SpooledSettlement, tooLargeText } from './settlement.ts';

/** A disk that takes longer than this, ms, counts as failed: a dead network drive must not delay results. */
const DISK_WITHIN_MS = 5000;

export interface OutboxPorts extends Pick<Ports, 'clock' | 'spool' | 'inside' | 'log'> {
  held: HeldJobs;
  queue: Pick<Session, 'peer' | 'sendSettlement' | 'resultsFound'>;
  /** PUTs a result; resolves to false if that failed. Never rejects. */
  upload(url: string, text: string, signal: AbortSignal): Promise<boolean>;
  /** Called when a settlement was uploaded or read from a slow disk, in the background. */
  changed(): void;
}

/**
 * Delivers the settlements in the list of held jobs, where each stays until the queue has acknowledged it or, with a
 * base queue, until it is sent. Settlements of stored jobs go to the queue's disk and to this machine's at the same
 * time: the first copy keeps a settlement from being lost, and one that the queue acknowledges before its turn at the
 * spool is never written. The outbox also uploads large results: the job has already left its slot, so neither a dead
 * engine nor the end of a drain loses them.
 */
export class Outbox {
  readonly #ports: OutboxPorts;
  #isHurried = false;
  readonly #outage: Outage;

  constructor(ports: OutboxPorts) {
    this.#ports = ports;
    this.#outage = new Outage(ports.log, {
      begins: 'finished results are kept in memory only',
      ends: 'finished results are kept on disk again',
    });
  }

  /** Whether results wait that an extended queue takes before this worker offers slots. */
  get hasExtended(): boolean {
    return this.#ports.held.allSettled().some(({ isExtended }) => isExtended);
  }

  /** The reason why settlements are in memory only, for people; null while the spool works. */
  get outage(): string | null {
    return this.#outage.text;
  }

  /**
   * Takes over the settlements that earlier processes of this worker left behind. Resolves when that is done, or when
   * nothing was read for DISK_WITHIN_MS; settlements read later are taken over then.
   */
  async load(): Promise<void> {
    const { clock, spool, log } = this.#ports;
    if (!spool) return;
    const left = spool.load()[Symbol.asyncIterator]();
    let next = left.next();
    try {
      for (let found = await inTime(clock, next); !found.done; found = await inTime(clock, next)) {
        this.#takeOver(found.value);
        next = left.next();
      }
    } catch (error) {
      this.#outage.report((error as Error).message);
      void this.#loadRest(left, next);
    }
    const results = this.#ports.held.settled;
    if (results > 0) log.info({ results }, 'results of an earlier process wait to be sent');
  }

  /** Adds a settlement, which replaces that of an older attempt, and sends it as soon as there is a connection. */
  put(settlement: Settlement, isPersisted: boolean, uploadUrl?: string): void {
    const { spool } = this.#ports;
    this.remove(settlement.job_id);
    const isExtended = this.#ports.queue.peer?.acknowledges ?? false;
    const hasCopy = isPersisted && !!spool;
    const settled: Settled = {
      state: 'settled',
      settlement,
      isExtended,
      uploadUrl: uploadUrl !== undefined && isLarge(settlement) ? uploadUrl : undefined,
      hasCopy,
      mayUpload: !hasCopy,
      upload: null,
    };
    this.#ports.held.add(settled);
    const isSent = this.#send(settled);
    if (hasCopy && this.#ports.held.holds(settled))
      void this.#spool(settled, isSent).then(() => this.#copied(settled));
  }

  /** Sends again a settlement that the queue seems to have missed. */
  repeat(settled: Settled): void {
    this.#send(settled);
  }

  /** Sends everything unacknowledged over a new connection, in the order of `put`. */
  connected(): void {
    if (this.hasExtended && this.#ports.queue.peer?.acknowledges === false) {
      this.#ports.log.warn({}, 'this queue acknowledges no results; those for another one are kept');
    }
    for (const settled of this.#ports.held.allSettled()) this.#send(settled);
  }

  /** Drops the settlement of exactly this attempt, not that of a newer one. */
  acknowledge({ job_id, fence_token }: JobRef): boolean {
    const settled = this.#ports.held.settledOf(job_id);
    if (settled?.settlement.fence_token !== fence_token) return false;
    this.remove(job_id);
    return true;
  }

  /** Drops the settlement of a job, if there is one. */
  remove(jobId: string): void {
    const settled = this.#ports.held.settledOf(jobId);
    if (!settled) return;
    this.#ports.held.remove(settled);
    settled.upload?.abort();
    if (settled.hasCopy) this.#forgetCopy(settled.settlement);
  }

  /**
   * Sends what is still to be uploaded in a frame, if the queue takes a frame of that size, since little time is left.
   * Other uploads go on until the process exits, and in the next process.
   */
  hurry(): void {
    this.#isHurried = true;
    for (const settled of this.#ports.held.allSettled()) {
      if (settled.uploadUrl !== undefined) this.#send(settled);
    }
  }

  /** Ends the uploads. The spool keeps its settlements for the next process. */
  abandon(): void {
    for (const { upload } of this.#ports.held.allSettled()) upload?.abort();
  }

  /** Takes over a settlement; returns null if an attempt of this process has made it stale. */
  #takeOver(spooled: SpooledSettlement): Settled | null {
    const { held } = this.#ports;
    const { job_id, fence_token } = spooled.settlement;
    if (held.settledOf(job_id)?.settlement.fence_token === fence_token) return null;
    // A result is worth more than the release of an attempt: on RunPod all attempts have the same fence token.
    if (held.fenceOf(job_id) > fence_token || held.runningOf(job_id)) {
      this.#forgetCopy(spooled.settlement);
      return null;
    }
    this.remove(job_id);
    const settled: Settled = { ...spooled, state: 'settled', hasCopy: true, mayUpload: true, upload: null };
    held.add(settled);
    return settled;
  }

  /** Continues to read for as long as the disk takes; nothing waits for this. */
  async #loadRest(
    left: AsyncIterator<SpooledSettlement>,
    next: Promise<IteratorResult<SpooledSettlement>>,
  ): Promise<void> {
    try {
      for (let found = await next; !found.done; found = await left.next()) {
        const settled = this.#takeOver(found.value);
        if (!settled) continue;
        this.#send(settled);
        this.#ports.changed();
        this.#ports.queue.resultsFound();
      }
      this.#outage.report(null);
    } catch (error) {
      this.#outage.report((error as Error).message);
    }
  }

  #forgetCopy(ref: JobRef): void {
    this.#ports.spool!.remove(ref).catch((error: Error) => this.#outage.report(error.message));
  }

  #copied(settled: Settled): void {
    settled.mayUpload = true;
    if (settled.uploadUrl === undefined || !this.#ports.held.holds(settled)) return;
    this.#send(settled);
    this.#ports.changed();
  }

  /** Sends a settlement. @returns whether it has gone out as a frame, not as an upload */
  #send(settled: Settled): boolean {
    const { settlement, isExtended, uploadUrl } = settled;
    const peer = this.#ports.queue.peer;
    if (!peer || (uploadUrl !== undefined && !settled.mayUpload)) return false;
    // A base queue would never acknowledge the settlement; this peer may be an extended queue that was slow to answer.
    if (isExtended && !peer.acknowledges) return false;
    if (uploadUrl !== undefined) {
      if (!this.#isHurried || frameText(settlement, peer) === null) {
        void this.#upload(settled, uploadUrl);
        return false;
      }
      settled.upload?.abort();
      settled.uploadUrl = undefined;
    }
    const { inside } = this.#ports;
    if (inside) {
      inside.settled(settlement);
      return true;
    }
    const text = frameText(settlement, peer);
    const isSent = this.#ports.queue.sendSettlement(text ?? tooLargeText(settlement, peer));
    if (isSent && text === null) {
      const { job_id } = settlement;
      this.#ports.log.warn(
        { job_id, code: 'too_large' },
        'job failed: its result is too large for a frame to this queue',
      );
    }
    if (isSent && !peer.acknowledges) this.remove(settlement.job_id);
    return isSent;
  }

  /** Uploads once, then sends a reference, or the result itself if that failed. */
  async #upload(settled: Settled, url: string): Promise<void> {
    const { settlement } = settled;
    if (settled.upload || settlement.type !== 'job_result') return;
    settled.upload = new AbortController();
    const { result, ...rest } = settlement;
    const isThere = await this.#ports.upload(url, writeJson(result), settled.upload.signal);
    // The settlement was revoked, superseded or sent in a frame during the upload.
    if (settled.upload.signal.aborted) return;
    settled.uploadUrl = undefined;
    if (isThere) settled.settlement = { ...rest, type: 'job_result_ref' };
    this.#send(settled);
    this.#ports.changed();
  }

  /**
   * Writes a settlement to the spool. Never rejects: a failing disk is reported, and the settlement stays in memory.
   */
  async #spool({ settlement, isExtended, uploadUrl }: Settled, isSent: boolean): Promise<void> {
    const { clock, spool } = this.#ports;
    try {
      await inTime(clock, spool!.put({ settlement, isExtended, uploadUrl }, isSent));
      this.#outage.report(null);
    } catch (error) {
      this.#outage.report((error as Error).message);
    }
  }
}

/** Tells whether a settlement is large enough to be uploaded, if the job has a `result_upload_url`. */
function isLarge(settlement: Settlement): boolean {
  if (settlement.type !== 'job_result') return false;
  return !fitsUtf8(writeJson(settlement.result), bounds.INLINE_BYTES);
}

function inTime<T>(clock: Ports['clock'], work: Promise<T>): Promise<T> {
  const message = `the disk took longer than ${DISK_WITHIN_MS / 1000} s`;
  return withTimeout(clock, DISK_WITHIN_MS, () => work, { message });
}
