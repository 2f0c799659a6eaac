import { withTimeout } from '../../process/clock.ts';
import { Outage } from '../../process/outage.ts';
import { bounds, fitsUtf8, type JobRef, writeJson } from '../../protocol/index.ts';
import type { Ports } from '../ports.ts';
import type { Peer } from '../session/peer.ts';
import { frameText, type Settlement, type SpooledSettlement, tooLargeText } from './settlement.ts';

/** A disk that takes longer than this counts as failed, ms: a dead network drive must not delay results. */
const DISK_WITHIN_MS = 5000;

export interface OutboxPorts extends Pick<Ports, 'clock' | 'spool' | 'inside' | 'log'> {
  /** Returns the last agreement with the queue, also while the socket is down. */
  peer(): Peer | null;
  /** Sends a frame; returns false when nothing can be sent at the moment. */
  sendText(text: string): boolean;
  /** PUTs a result; resolves to false if that failed. Never rejects. */
  upload(url: string, text: string, signal: AbortSignal): Promise<boolean>;
  /** Tells whether this process is running an attempt at the job. */
  isRunning(jobId: string): boolean;
  /** Called when a settlement became ready to send, or was uploaded, in the background. */
  changed(): void;
  /** Called when a slow disk brings a result of an earlier process. */
  found(): void;
}

interface Kept extends SpooledSettlement {
  /** True if the settlement has, or will have, a copy in the spool. */
  hasCopy: boolean;
  /**
   * True once the spool is done with the settlement, or if it needs no copy: an upload may take long, so it comes last.
   */
  mayUpload: boolean;
  /** Aborts the upload in progress. */
  upload: AbortController | null;
}

/**
 * Keeps settlements until the queue has acknowledged them; with a base queue, until they are sent. Settlements of
 * stored jobs go to the queue's disk and to this machine's at the same time: whichever has one first keeps it from
 * being lost, and one that the queue acknowledges before its turn at the spool is never written. The outbox also
 * uploads large results: the job has already left its slot, so neither a dead engine nor the end of a drain loses them.
 */
export class Outbox {
  readonly #ports: OutboxPorts;
  readonly #byJob = new Map<string, Kept>();
  #isHurried = false;
  readonly #outage: Outage;

  constructor(ports: OutboxPorts) {
    this.#ports = ports;
    this.#outage = new Outage(ports.log, {
      begins: 'finished results are kept in memory only',
      ends: 'finished results are kept on disk again',
    });
  }

  get size(): number {
    return this.#byJob.size;
  }

  /** True while results wait that an extended queue takes before this worker offers slots. */
  get hasExtended(): boolean {
    return [...this.#byJob.values()].some(({ isExtended }) => isExtended);
  }

  /** The reason why settlements are kept in memory only, for people; null while the spool works. */
  get outage(): string | null {
    return this.#outage.text;
  }

  /**
   * Takes over the settlements that earlier processes of this worker left. Resolves when that is done, or when nothing
   * was read for DISK_WITHIN_MS; settlements read later are taken over then.
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
    if (this.size > 0) log.info({ results: this.size }, 'results of an earlier process wait to be sent');
  }

  /** Adds a settlement, which replaces that of an older attempt, and sends it as soon as there is a connection. */
  put(settlement: Settlement, isPersisted: boolean, uploadUrl?: string): void {
    const { spool } = this.#ports;
    this.remove(settlement.job_id);
    const isExtended = this.#ports.peer()?.acknowledges ?? false;
    const hasCopy = isPersisted && !!spool;
    const kept: Kept = {
      settlement,
      isExtended,
      uploadUrl: uploadUrl !== undefined && isLarge(settlement) ? uploadUrl : undefined,
      hasCopy,
      mayUpload: !hasCopy,
      upload: null,
    };
    this.#byJob.set(settlement.job_id, kept);
    const isSent = this.#send(kept);
    if (hasCopy && this.#isKept(kept)) void this.#spool(kept, isSent).then(() => this.#copied(kept));
  }

  get(jobId: string): Settlement | undefined {
    return this.#byJob.get(jobId)?.settlement;
  }

  /** Sends again a settlement that the queue seems to have missed. */
  repeat(jobId: string): void {
    const kept = this.#byJob.get(jobId);
    if (kept) this.#send(kept);
  }

  /** Sends everything unacknowledged over a new connection, in the order of `put`. */
  connected(): void {
    if (this.hasExtended && this.#ports.peer()?.acknowledges === false) {
      this.#ports.log.warn({}, 'this queue acknowledges no results; those for another one are kept');
    }
    for (const kept of [...this.#byJob.values()]) this.#send(kept);
  }

  /** Drops the settlement of exactly this attempt, not that of a newer one. */
  acknowledge(ref: JobRef): boolean {
    if (this.get(ref.job_id)?.fence_token !== ref.fence_token) return false;
    this.remove(ref.job_id);
    return true;
  }

  remove(jobId: string): void {
    const kept = this.#byJob.get(jobId);
    if (!kept) return;
    this.#byJob.delete(jobId);
    kept.upload?.abort();
    if (kept.hasCopy) this.#forgetCopy(kept.settlement);
  }

  /**
   * Sends what is still to be uploaded in a frame, if the queue takes one of that size, as little time is left. Uploads
   * of the rest go on until the process exits, and in the next process.
   */
  hurry(): void {
    this.#isHurried = true;
    for (const kept of [...this.#byJob.values()]) if (kept.uploadUrl !== undefined) this.#send(kept);
  }

  /** Stops sending from this process. The spool keeps its settlements for the next one. */
  abandon(): void {
    for (const { upload } of this.#byJob.values()) upload?.abort();
    this.#byJob.clear();
  }

  refs(): JobRef[] {
    return [...this.#byJob.values()].map(({ settlement: { job_id, fence_token } }) => ({
      job_id,
      fence_token,
    }));
  }

  /** Takes over a settlement; returns null if an attempt of this process has made it stale. */
  #takeOver(spooled: SpooledSettlement): Kept | null {
    const { job_id, fence_token } = spooled.settlement;
    const newer = this.get(job_id)?.fence_token ?? 0;
    if (newer >= fence_token || this.#ports.isRunning(job_id)) {
      if (newer !== fence_token) this.#forgetCopy(spooled.settlement);
      return null;
    }
    this.remove(job_id);
    const kept = { ...spooled, hasCopy: true, mayUpload: true, upload: null };
    this.#byJob.set(job_id, kept);
    return kept;
  }

  /** Reads on for as long as the disk takes; nothing waits for this. */
  async #loadRest(
    left: AsyncIterator<SpooledSettlement>,
    next: Promise<IteratorResult<SpooledSettlement>>,
  ): Promise<void> {
    try {
      for (let found = await next; !found.done; found = await left.next()) {
        const kept = this.#takeOver(found.value);
        if (!kept) continue;
        this.#send(kept);
        this.#ports.found();
      }
      this.#outage.report(null);
    } catch (error) {
      this.#outage.report((error as Error).message);
    }
  }

  #forgetCopy(ref: JobRef): void {
    this.#ports.spool!.remove(ref).catch((error: Error) => this.#outage.report(error.message));
  }

  /** Tells whether the settlement is still to be sent; false: it was acknowledged, superseded or revoked meanwhile. */
  #isKept(kept: Kept): boolean {
    return this.#byJob.get(kept.settlement.job_id) === kept;
  }

  #copied(kept: Kept): void {
    kept.mayUpload = true;
    if (kept.uploadUrl === undefined || !this.#isKept(kept)) return;
    this.#send(kept);
    this.#ports.changed();
  }

  /** Sends a settlement. @returns whether it has gone out, not as an upload */
  #send(kept: Kept): boolean {
    const { settlement, isExtended, uploadUrl } = kept;
    const peer = this.#ports.peer();
    if (!peer || (uploadUrl !== undefined && !kept.mayUpload)) return false;
    // A base queue would never acknowledge it; perhaps this peer is an extended queue that was slow to answer.
    if (isExtended && !peer.acknowledges) return false;
    if (uploadUrl !== undefined) {
      if (!this.#isHurried || frameText(settlement, peer) === null) {
        void this.#upload(kept, uploadUrl);
        return false;
      }
      kept.upload?.abort();
      kept.uploadUrl = undefined;
    }
    const { inside } = this.#ports;
    if (inside) {
      inside.settled(settlement);
      return true;
    }
    const text = frameText(settlement, peer);
    const isSent = this.#ports.sendText(text ?? tooLargeText(settlement, peer));
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
  async #upload(kept: Kept, url: string): Promise<void> {
    const { settlement } = kept;
    if (kept.upload || settlement.type !== 'job_result') return;
    kept.upload = new AbortController();
    const { result, ...rest } = settlement;
    const isThere = await this.#ports.upload(url, writeJson(result), kept.upload.signal);
    // The settlement was revoked, superseded or sent in a frame meanwhile.
    if (kept.upload.signal.aborted) return;
    kept.uploadUrl = undefined;
    if (isThere) kept.settlement = { ...rest, type: 'job_result_ref' };
    this.#send(kept);
    this.#ports.changed();
  }

  /**
   * Writes a settlement to the spool. Never rejects: a failing disk is reported, and the settlement stays in memory.
   */
  async #spool({ settlement, isExtended, uploadUrl }: Kept, isSent: boolean): Promise<void> {
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
