import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PIECE_BYTES } from '../../../src/files/file-index.ts';
import { FileObject } from '../../../src/files/object.ts';
import { type HeldObject, holdObject } from '../../support/held-object.ts';
import { until } from '../../support/poll.ts';

let files: HeldObject<FileObject>;
/** Until when the queue says that jobs have their files, epoch ms. */
let keptUntil: number | null;

beforeEach(async () => {
  keptUntil = null;
  const queue = { filesKeptUntil: async (asked: unknown[]) => asked.map(() => keptUntil) };
  files = await holdObject(FileObject, (host) => new FileObject(host, { queue: () => queue }, null));
});
afterEach(() => files.end());

async function textOf(id: string): Promise<string> {
  return await (await files.ask.content(id)).text();
}

const bytesOf = (text: string) => new TextEncoder().encode(text);

/** Bytes none of whose neighbours are alike. */
function counting(length: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length }, (_, n) => (n * 7 + (n >> 8)) & 255);
}

describe('the object of files', () => {
  it('gives an upload back as it came, with its length', async () => {
    const sent = counting(20 * PIECE_BYTES + 11);
    for (let at = 0, number = 0; at < sent.length; at += PIECE_BYTES, number++)
      await files.ask.put('a', number, sent.subarray(at, at + PIECE_BYTES));
    const response = await files.ask.content('a');
    expect(response.headers.get('content-length')).toBe(String(sent.length));
    expect(Buffer.compare(new Uint8Array(await response.arrayBuffer()), sent)).toBe(0);
    const [part] = await files.ask.readLines('a', [{ offset: PIECE_BYTES - 3, length: 7 }]);
    expect(part).toEqual(sent.slice(PIECE_BYTES - 3, PIECE_BYTES + 4));
  });

  it('takes each line once, however often it is told', async () => {
    const line = (key: number) => ({ key, bytes: bytesOf(`line ${key}\n`) });
    const long = { key: 2, bytes: bytesOf(`${'x'.repeat(3 * PIECE_BYTES)}\n`) };
    expect(await files.ask.append('out', [line(5), long])).toBe(7 + long.bytes.length);
    await files.ask.append('out', [line(5), long, line(1)]);
    expect(await textOf('out')).toBe(`line 5\n${'x'.repeat(3 * PIECE_BYTES)}\nline 1\n`);
  });

  it('joins short lines, so that a reader is not given each by itself', async () => {
    const lines = Array.from({ length: 500 }, (_, key) => ({ key, bytes: bytesOf(`line ${key}\n`) }));
    await files.ask.append('out', lines);
    const { body } = await files.ask.content('out');
    let chunks = 0;
    for await (const _ of body!) chunks += 1;
    expect(chunks).toBeLessThan(20);
  });

  it('reads on as its reader does: what is removed meanwhile ends the content', async () => {
    for (let number = 0; number < 40; number++) await files.ask.put('a', number, counting(PIECE_BYTES));
    const reader = (await files.ask.content('a')).body!.getReader();
    await reader.read();
    await files.ask.remove('a');
    let read = 1;
    while (!(await reader.read()).done) read += 1;
    expect(read).toBeLessThan(20);
  });

  it('gives its disk back with the last file, and takes the next one', async () => {
    for (let number = 0; number < 40; number++) await files.ask.put('a', number, counting(PIECE_BYTES));
    const before = files.host().databaseBytes();
    await files.ask.remove('a');
    expect(files.host().databaseBytes()).toBeLessThan(before / 10);
    expect(files.host().alarm.get()).toBeNull();
    expect((await files.ask.content('a')).status).toBe(404);
    await files.ask.append('b', [{ key: 1, bytes: bytesOf('new') }]);
    expect(await textOf('b')).toBe('new');
  });

  it('says so where pieces came too late: the file was removed meanwhile', async () => {
    await files.ask.put('a', 0, counting(1));
    await files.ask.remove('a');
    expect(await files.ask.put('a', 1, counting(1))).toBe(false);
    expect(await files.ask.keepForJob('a', 'job')).toBe(false);
  });

  it('keeps the file of a job for as long as the queue says', async () => {
    await files.ask.put('a', 0, counting(1));
    await files.ask.keepForJob('a', 'job');
    keptUntil = Date.now() + 3_600_000;
    comeDue();
    await until(() => files.host().alarm.get() === keptUntil, 'the queue has been asked');
    expect(await files.ask.size('a')).toBe(1);
    keptUntil = null;
    comeDue();
    await until(async () => (await files.ask.size('a')) === null, 'the file is removed');
  });
});

/** Their time is over. */
function comeDue(): void {
  files.host().sql.exec('UPDATE files SET expires_at = 1');
  files.host().alarm.set(1);
}
