import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../../../process/index.ts';
import {
  CALL_MS,
  type Entry,
  type Journal,
  type Lease,
  type Place,
  READ_BYTES,
  type Snapshot,
  type SnapshotChunk,
  sortedName,
  Taken,
} from './journal.ts';
import { type Answer, S3Bucket, S3Error } from './s3-bucket.ts';

/** A store lists at most this many keys at once. */
const MOST_LISTED = 1000;
/** A read asks for at most this many entries at once. */
const READ_AT_ONCE = 16;
/** A request of a snapshot or of `trim` gets this much time, ms. */
const PART_MS = 60_000;
/**
 * An entry is trimmed no sooner than this after it was appended, ms: `trim` removes what is older than the newest but
 * one of the snapshots, which are minutes apart.
 */
const TRIMMED_AFTER_MS = 60_000;
/** Such a request is sent this many times, with a pause that doubles, ms: a snapshot has thousands of them. */
const MOST_TRIES = 5;
const FIRST_PAUSE_MS = 100;
/** Parts that no snapshot names are left over after this time, ms. */
const LEFT_AFTER_MS = 3_600_000;

const WHEN_ABSENT = { 'if-none-match': '*' };

interface StoredLease extends Lease {
  ttlMs: number;
}

/** The list that is stored beside the parts of a snapshot. */
interface Contents {
  /** The folder of the parts. */
  id: string;
  /** The name of the file that each part is of. */
  names: string[];
}

/**
 * A journal in an object store with S3's API: an entry is an object, which is stored only if there is none with its
 * key.
 */
export class S3Journal implements Journal {
  readonly #bucket: S3Bucket;
  /** A number up to which there are entries. */
  #seen = 0;
  /** The last entry that this process has appended, and when, by the clock of the store. */
  #appended = { seq: -1, at: 0 };
  /** The tag of the lease's object as it was last seen; null: it was not there. */
  #leaseTag: string | null = null;

  /** @throws UserError if the address cannot be read, or the store's keys are not set */
  constructor(address: string, env: NodeJS.ProcessEnv = process.env) {
    this.#bucket = new S3Bucket(address, env);
  }

  async open(): Promise<void> {
    try {
      await this.#checkStore();
    } catch (error) {
      if (mayPass(error)) throw error;
      throw new UserError(
        `The journal's object store refuses its use: ${(error as Error).message}. Correct the address of the journal ` +
          '(QUEUE_JOURNAL or --journal), AWS_REGION, AWS_ENDPOINT_URL, or the rights of AWS_ACCESS_KEY_ID, which has ' +
          'to list, read, write and delete objects.',
      );
    }
  }

  async last(): Promise<Place> {
    const limit = AbortSignal.timeout(CALL_MS);
    const seq = await this.#lastNumber(limit);
    if (seq === 0) return { seq: 0, epoch: 0 };
    const head = await this.#bucket.get(entryKey(seq), limit, 'HEAD');
    if (!head) throw new Error(`entry ${seq} of the journal was removed`);
    return { seq, epoch: epochOf(head) };
  }

  async append({ seq, epoch, body }: Entry): Promise<void> {
    const limit = AbortSignal.timeout(CALL_MS);
    const isNext = this.#appended.seq === seq - 1;
    if (!isNext && !(await this.#follows(seq, limit))) throw new Taken(seq);
    const headers = { ...WHEN_ABSENT, 'x-amz-meta-epoch': String(epoch) };
    const stored = await this.#bucket.put(entryKey(seq), body, limit, headers);
    if (!stored) throw new Taken(seq);
    // Others may have appended this number and trimmed it, while this process was stopped. Entries are trimmed in order.
    const mayBeTrimmed = !isNext || !(stored.at - this.#appended.at < TRIMMED_AFTER_MS);
    if (mayBeTrimmed && !(await this.#follows(seq, limit, true))) {
      await this.#bucket.remove(entryKey(seq), limit);
      throw new Taken(seq);
    }
    this.#appended = { seq, at: stored.at };
    this.#seen = Math.max(this.#seen, seq);
  }

  async read(afterSeq: number, most: number): Promise<Entry[]> {
    return await this.#read(afterSeq, most, AbortSignal.timeout(CALL_MS));
  }

  async renewLease({ epoch, address }: Lease, ttlMs: number): Promise<boolean> {
    const limit = AbortSignal.timeout(CALL_MS);
    const body = JSON.stringify({ epoch, address, ttlMs } satisfies StoredLease);
    for (;;) {
      const condition = this.#leaseTag === null ? WHEN_ABSENT : { 'if-match': this.#leaseTag };
      const stored = await this.#bucket.put('lease', body, limit, condition);
      if (stored) {
        this.#leaseTag = tagOf(stored);
        return true;
      }
      const found = await this.#bucket.get('lease', limit);
      if (found && leaseOf(found).epoch > epoch) return false;
      this.#leaseTag = found && tagOf(found);
    }
  }

  async lease(): Promise<(Lease & { isAlive: boolean }) | null> {
    const found = await this.#bucket.get('lease', AbortSignal.timeout(CALL_MS));
    if (!found) return null;
    const { epoch, address, ttlMs } = leaseOf(found);
    // Both times are of whole seconds, so that their difference may be a second too long.
    const ageMs = found.at - Date.parse(found.headers.get('last-modified') ?? '');
    return { epoch, address, isAlive: ttlMs > 0 && ageMs <= ttlMs };
  }

  async saveSnapshot({ seq, chunks }: Snapshot): Promise<void> {
    const contents: Contents = { id: randomUUID(), names: [] };
    for await (const { name, bytes } of chunks) {
      const part = contents.names.push(name) - 1;
      await again((limit) => this.#bucket.put(partKey(contents.id, part), bytes, limit));
    }
    const key = `snapshots/${sortedName(seq)}`;
    await again((limit) => this.#bucket.put(key, JSON.stringify(contents), limit, WHEN_ABSENT));
  }

  async newestSnapshot(): Promise<Snapshot | null> {
    const limit = AbortSignal.timeout(CALL_MS);
    const newest = (await this.#names('snapshots/', limit)).at(-1);
    const found = newest === undefined ? null : await this.#bucket.get(`snapshots/${newest}`, limit);
    return found && { seq: Number(newest), chunks: this.#parts(contentsOf(found)) };
  }

  async trim(beforeSeq: number): Promise<void> {
    const limit = () => AbortSignal.timeout(PART_MS);
    for (;;) {
      const { names, isCut } = await this.#bucket.list('journal/', '', MOST_LISTED, limit());
      const old = names.filter((name) => Number(name) < beforeSeq);
      // One after the other: an append sees by the entry before its own that neither was trimmed.
      for (const name of old) await again((limit) => this.#bucket.remove(`journal/${name}`, limit));
      if (!isCut || old.length < names.length) break;
    }
    const named = new Set<string>();
    for (const name of await this.#names('snapshots/', limit())) {
      if (Number(name) < beforeSeq) await this.#bucket.remove(`snapshots/${name}`, limit());
      else named.add(contentsOf((await this.#bucket.get(`snapshots/${name}`, limit()))!).id);
    }
    await this.#removeParts(named);
  }

  async close(): Promise<void> {}

  /** Checks that the store carries out a condition, rather than ignores it. */
  async #checkStore(): Promise<void> {
    const limit = AbortSignal.timeout(CALL_MS);
    const key = `probe-${randomUUID()}`;
    const put = async (condition: Record<string, string>) =>
      await this.#bucket.put(key, 'probe', limit, condition);
    const isFirst = await put(WHEN_ABSENT);
    const isSecond = await put(WHEN_ABSENT);
    const isOther = await put({ 'if-match': '"0123456789abcdef0123456789abcdef"' });
    await this.#bucket.remove(key, limit);
    if (isFirst && !isSecond && !isOther) return;
    throw new UserError(
      "The journal's object store ignores If-None-Match or If-Match in a PUT, so that two owners could write the same " +
        'entry. Use a store that knows both, such as Amazon S3, Cloudflare R2, MinIO, Ceph or SeaweedFS of a current ' +
        'version.',
    );
  }

  /** Finds the number of the last entry in growing steps: there are no gaps after the first one. */
  async #lastNumber(limit: AbortSignal): Promise<number> {
    let step = 0;
    for (;;) {
      const { names, isCut } = await this.#bucket.list(
        'journal/',
        sortedName(this.#seen + step),
        MOST_LISTED,
        limit,
      );
      if (names.length > 0) this.#seen = Number(names.at(-1));
      if (!isCut && (names.length > 0 || step === 0)) return this.#seen;
      step = isCut ? step * 2 + MOST_LISTED : Math.floor(step / 4);
    }
  }

  async #read(afterSeq: number, most: number, limit: AbortSignal): Promise<Entry[]> {
    const entries: Entry[] = [];
    let bytes = 0;
    for (
      let count = 1;
      entries.length < most && bytes < READ_BYTES;
      count = Math.min(count * 2, READ_AT_ONCE)
    ) {
      const next = afterSeq + 1 + entries.length;
      const seqs = Array.from({ length: Math.min(count, most - entries.length) }, (_, index) => next + index);
      const found = await Promise.all(seqs.map((seq) => this.#entry(seq, limit)));
      const missing = found.indexOf(null);
      for (const entry of found.slice(0, missing === -1 ? undefined : missing) as Entry[]) {
        entries.push(entry);
        bytes += entry.body.length;
      }
      if (missing !== -1) break;
    }
    if (entries.length > 0 || (await this.#has(afterSeq, limit))) return entries;
    const { names } = await this.#bucket.list('journal/', sortedName(afterSeq), 1, limit);
    return names[0] === undefined ? [] : await this.#read(Number(names[0]) - 1, most, limit);
  }

  async #entry(seq: number, limit: AbortSignal): Promise<Entry | null> {
    const found = await this.#bucket.get(entryKey(seq), limit);
    return found && { seq, epoch: epochOf(found), body: found.body };
  }

  /** Returns whether an entry with this number would follow the last one, or follows the one before it. */
  async #follows(seq: number, limit: AbortSignal, isThere = false): Promise<boolean> {
    if (seq > 1) return await this.#has(seq - 1, limit);
    const { names } = await this.#bucket.list('journal/', '', 1, limit);
    return (names[0] === undefined ? undefined : Number(names[0])) === (isThere ? 1 : undefined);
  }

  async #has(seq: number, limit: AbortSignal): Promise<boolean> {
    return seq > 0 && (await this.#bucket.get(entryKey(seq), limit, 'HEAD')) !== null;
  }

  async *#parts({ id, names }: Contents): AsyncGenerator<SnapshotChunk> {
    for (const [part, name] of names.entries()) {
      const found = await again((limit) => this.#bucket.get(partKey(id, part), limit));
      if (!found) throw new Error('the snapshot was removed while it was read');
      yield { name, bytes: found.body };
    }
  }

  /** Removes the parts that no snapshot has, except those of one that is being stored. */
  async #removeParts(named: ReadonlySet<string>): Promise<void> {
    const limit = () => AbortSignal.timeout(PART_MS);
    for (const name of await this.#names('parts/', limit())) {
      if (named.has(name.split('/')[0]!)) continue;
      const head = await this.#bucket.get(`parts/${name}`, limit(), 'HEAD');
      const ageMs = head ? head.at - Date.parse(head.headers.get('last-modified') ?? '') : 0;
      if (ageMs > LEFT_AFTER_MS) await this.#bucket.remove(`parts/${name}`, limit());
    }
  }

  /** Returns all names in a folder that has few. */
  async #names(folder: string, limit: AbortSignal): Promise<string[]> {
    const all: string[] = [];
    for (;;) {
      const { names, isCut } = await this.#bucket.list(folder, all.at(-1) ?? '', MOST_LISTED, limit);
      all.push(...names);
      if (!isCut) return all;
    }
  }
}

/** Returns whether a request may succeed later: too many requests, and faults of the store or the network, pass. */
function mayPass(error: unknown): boolean {
  if (!(error instanceof S3Error)) return true;
  return error.status === 429 || (error.status >= 500 && error.status !== 501);
}

/** Sends a request of a snapshot or of `trim`, which may be carried out twice, a few times if it fails for the moment. */
async function again<T>(send: (limit: AbortSignal) => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await send(AbortSignal.timeout(PART_MS));
    } catch (error) {
      if (tries === MOST_TRIES || !mayPass(error)) throw error;
    }
    await sleep(FIRST_PAUSE_MS * 2 ** tries);
  }
}

function entryKey(seq: number): string {
  return `journal/${sortedName(seq)}`;
}

function partKey(id: string, part: number): string {
  return `parts/${id}/${sortedName(part)}`;
}

function epochOf({ headers }: Answer): number {
  return Number(headers.get('x-amz-meta-epoch'));
}

function tagOf({ headers }: Answer): string | null {
  return headers.get('etag');
}

function leaseOf({ body }: Answer): StoredLease {
  return JSON.parse(body.toString());
}

function contentsOf({ body }: Answer): Contents {
  return JSON.parse(body.toString());
}
