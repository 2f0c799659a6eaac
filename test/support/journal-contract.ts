import { afterEach, describe, expect, it } from 'vitest';
import { type Entry, type Journal, type SnapshotChunk, Taken } from '../../src/host/node/journal/journal.ts';
import { until } from './poll.ts';

/** A journal that is empty at first, for one test. */
export interface JournalUnderTest {
  /** Makes a journal as another process would, for the same entries; not opened yet. */
  connect(): Journal;
  remove(): Promise<void>;
}

/** Tests that a kind of journal does what `Journal` says. */
export function journalContract(kind: string, make: () => Promise<JournalUnderTest>): void {
  describe(`the journal ${kind}`, () => {
    const open: Journal[] = [];
    const made: JournalUnderTest[] = [];

    afterEach(async () => {
      for (const journal of open.splice(0)) await journal.close();
      for (const place of made.splice(0)) await place.remove();
    });

    async function two(): Promise<[Journal, Journal]> {
      const place = await make();
      made.push(place);
      const both: [Journal, Journal] = [place.connect(), place.connect()];
      open.push(...both);
      // Both open at once, as an owner and a follower that are started together do.
      await Promise.all(both.map((journal) => journal.open()));
      return both;
    }

    it('is empty at first', async () => {
      const [journal] = await two();
      expect(await journal.last()).toEqual({ seq: 0, epoch: 0 });
      expect(await journal.read(0, 10)).toEqual([]);
      expect(await journal.lease()).toBeNull();
      expect(await journal.newestSnapshot()).toBeNull();
    });

    it('gives another process what was appended, byte for byte', async () => {
      const [owner, follower] = await two();
      const every = Uint8Array.from({ length: 256 }, (_, byte) => byte);
      const large = new Uint8Array(3_000_000).map((_, index) => index * 7);
      await owner.append({ seq: 1, epoch: 5, body: every });
      expect(await follower.last()).toEqual({ seq: 1, epoch: 5 });
      await owner.append({ seq: 2, epoch: 5, body: large });
      await owner.append({ seq: 3, epoch: 2 ** 31 + 6, body: new Uint8Array() });
      expect(await follower.last()).toEqual({ seq: 3, epoch: 2 ** 31 + 6 });
      expect(plain(await follower.read(0, 1))).toEqual([plainOf({ seq: 1, epoch: 5, body: every })]);
      expect(plain(await readAll(follower, 1))).toEqual([
        plainOf({ seq: 2, epoch: 5, body: large }),
        plainOf({ seq: 3, epoch: 2 ** 31 + 6, body: new Uint8Array() }),
      ]);
      expect(await follower.read(3, 10)).toEqual([]);
    });

    it('accepts one entry for each number', async () => {
      const [owner, other] = await two();
      await owner.append(entry(1, 1));
      await expect(other.append(entry(1, 2))).rejects.toThrow(Taken);
      await other.append(entry(2, 2));
      await expect(owner.append(entry(2, 1))).rejects.toThrow(Taken);
      expect((await readAll(owner, 0)).map(({ epoch }) => epoch)).toEqual([1, 2]);
    });

    it('accepts one of many appends at once', async () => {
      const both = await two();
      for (let seq = 1; seq <= 5; seq += 1) {
        const tries = Array.from({ length: 8 }, (_, index) =>
          both[index % 2]!.append(entry(seq, index + 1)).then(
            () => index + 1,
            (error: unknown) => {
              if (!(error instanceof Taken)) throw error;
              return 0;
            },
          ),
        );
        const [won, ...more] = (await Promise.all(tries)).filter((epoch) => epoch > 0);
        expect(more).toEqual([]);
        expect(await both[0].last()).toEqual({ seq, epoch: won });
      }
    });

    it('accepts no entry that leaves a gap', async () => {
      const [owner] = await two();
      await expect(owner.append(entry(2, 1))).rejects.toThrow(Taken);
      await owner.append(entry(1, 1));
      await expect(owner.append(entry(3, 1))).rejects.toThrow(Taken);
      expect(await owner.last()).toEqual({ seq: 1, epoch: 1 });
    });

    it('accepts no entry with a number that was trimmed', async () => {
      const [owner, other] = await two();
      for (const seq of [1, 2, 3, 4]) await owner.append(entry(seq, 1));
      await owner.trim(4);
      for (const seq of [1, 2, 3, 4]) await expect(other.append(entry(seq, 1))).rejects.toThrow(Taken);
      expect(await other.last()).toEqual({ seq: 4, epoch: 1 });
      await other.append(entry(5, 1));
    });

    it('shows a reader that what it wants was trimmed', async () => {
      const [owner, follower] = await two();
      for (let seq = 1; seq <= 6; seq += 1) await owner.append(entry(seq, 1));
      await owner.trim(5);
      expect((await readAll(follower, 0)).map(({ seq }) => seq)).toEqual([5, 6]);
      expect((await readAll(follower, 3)).map(({ seq }) => seq)).toEqual([5, 6]);
      expect((await readAll(follower, 5)).map(({ seq }) => seq)).toEqual([6]);
    });

    it('reads many entries in order', async () => {
      const [owner, follower] = await two();
      for (let seq = 1; seq <= 25; seq += 1) await owner.append(entry(seq, 1));
      const read = await readAll(follower, 0, 10);
      expect(read.map(({ seq }) => seq)).toEqual(Array.from({ length: 25 }, (_, index) => index + 1));
    });

    it('holds a lease until its time is over, or it is given up', async () => {
      const [owner, follower] = await two();
      expect(await owner.renewLease({ epoch: 1, address: 'http://one:8788' }, 60_000)).toBe(true);
      expect(await follower.lease()).toEqual({ epoch: 1, address: 'http://one:8788', isAlive: true });
      expect(await owner.renewLease({ epoch: 1, address: 'http://one:8788' }, 0)).toBe(true);
      await until(async () => (await follower.lease())?.isAlive === false, 'the lease is given up');
      expect(await owner.renewLease({ epoch: 1, address: 'http://one:8788' }, 1000)).toBe(true);
      await until(async () => (await follower.lease())?.isAlive === false, 'the time of the lease is over');
    });

    it('gives the lease to the highest epoch', async () => {
      const [owner, next] = await two();
      await owner.renewLease({ epoch: 1, address: 'one' }, 60_000);
      expect(await next.renewLease({ epoch: 2, address: 'two' }, 60_000)).toBe(true);
      expect(await owner.renewLease({ epoch: 1, address: 'one' }, 60_000)).toBe(false);
      expect(await owner.lease()).toEqual({ epoch: 2, address: 'two', isAlive: true });
    });

    it('stores the newest snapshot, whole', async () => {
      const [owner, follower] = await two();
      await owner.append(entry(1, 1));
      await owner.append(entry(2, 1));
      const chunks: SnapshotChunk[] = [
        { name: 'data/default/queue.sqlite', bytes: new Uint8Array(2_500_000).map((_, index) => index) },
        { name: 'data/default/queue.sqlite', bytes: Uint8Array.of(1, 2, 3) },
        { name: 'data/é/fleet.sqlite', bytes: new Uint8Array() },
      ];
      await follower.saveSnapshot({ seq: 1, chunks: each(chunks.slice(1)) });
      await follower.saveSnapshot({ seq: 2, chunks: each(chunks) });
      const newest = (await owner.newestSnapshot())!;
      expect(newest.seq).toBe(2);
      expect(await read(newest.chunks)).toEqual(chunks.map(chunkOf));
      await owner.trim(2);
      expect((await follower.newestSnapshot())!.seq).toBe(2);
      // A snapshot of the same entry again, as a follower makes after it was started again, or another queue by mistake.
      await follower.saveSnapshot({ seq: 2, chunks: each(chunks.slice(1)) });
      const again = (await owner.newestSnapshot())!;
      expect(await read(again.chunks)).toEqual(chunks.map(chunkOf));
    });

    it('shows nothing of a snapshot that was not finished', async () => {
      const [owner, follower] = await two();
      await owner.append(entry(1, 1));
      async function* broken(): AsyncGenerator<SnapshotChunk> {
        yield { name: 'one', bytes: Uint8Array.of(1) };
        throw new Error('the disk is gone');
      }
      await expect(follower.saveSnapshot({ seq: 1, chunks: broken() })).rejects.toThrow('the disk is gone');
      expect(await owner.newestSnapshot()).toBeNull();
      await follower.saveSnapshot({ seq: 1, chunks: each([{ name: 'two', bytes: Uint8Array.of(2) }]) });
      const newest = (await owner.newestSnapshot())!;
      expect(await read(newest.chunks)).toEqual([{ name: 'two', hex: '02' }]);
    });
  });
}

function entry(seq: number, epoch: number): Entry {
  return { seq, epoch, body: Buffer.from(`entry ${seq} of ${epoch}`) };
}

async function readAll(journal: Journal, afterSeq: number, most = 100): Promise<Entry[]> {
  const all: Entry[] = [];
  for (;;) {
    const some = await journal.read(all.at(-1)?.seq ?? afterSeq, most);
    expect(some.length).toBeLessThanOrEqual(most);
    if (some.length === 0) return all;
    all.push(...some);
  }
}

/** Returns entries in a form in which buffers and arrays of bytes are compared quickly. */
function plain(entries: Entry[]): unknown[] {
  return entries.map(plainOf);
}

function plainOf({ body, ...place }: Entry): unknown {
  return { ...place, body: Buffer.from(body).toString('hex') };
}

function chunkOf({ name, bytes }: SnapshotChunk): { name: string; hex: string } {
  return { name, hex: Buffer.from(bytes).toString('hex') };
}

async function* each(chunks: SnapshotChunk[]): AsyncGenerator<SnapshotChunk> {
  yield* chunks;
}

async function read(chunks: AsyncIterable<SnapshotChunk>): Promise<unknown[]> {
  const all: unknown[] = [];
  for await (const chunk of chunks) all.push(chunkOf(chunk));
  return all;
}
