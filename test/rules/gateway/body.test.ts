import { afterEach, describe, expect, it, vi } from 'vitest';
import { parseBody, readBody } from '../../../src/gateway/bodies/body.ts';
import { discardBody } from '../../../src/gateway/bodies/receive.ts';
import { storeUpload } from '../../../src/gateway/bodies/upload.ts';
import type { Env } from '../../../src/gateway/env.ts';

function post(body: string | ReadableStream | Uint8Array, headers: Record<string, string> = {}): Request {
  return new Request('http://localhost/', { method: 'POST', body, headers, duplex: 'half' } as RequestInit);
}

/** A body that tells how much of it was read. */
function counted(pieces: number, bytes: number) {
  const seen = { pieces: 0 };
  const stream = new ReadableStream(
    {
      type: 'bytes',
      pull: (controller) => {
        if (seen.pieces === pieces) {
          controller.close();
          controller.byobRequest?.respond(0);
          return;
        }
        seen.pieces += 1;
        controller.enqueue(new Uint8Array(bytes).fill(120));
      },
    },
    { highWaterMark: 0 },
  );
  return { stream, seen };
}

const MIB = 1024 * 1024;
const env = (more: Partial<Env> = {}) => more as Env;
const read = async (request: Request, most?: number) => {
  const { bytes, release } = await readBody(request, env(), most);
  const copy = bytes.slice();
  release();
  return copy;
};
const text = async (request: Request, most?: number) => new TextDecoder().decode(await read(request, most));

afterEach(() => {
  vi.useRealTimers();
});

describe('reading a body', () => {
  it('keeps the bytes as they came, characters across pieces included', async () => {
    const bytes = new TextEncoder().encode('{"a": 1.10, "b": "größe 🎉"}');
    const stream = new ReadableStream({
      type: 'bytes',
      start: (controller) => {
        for (const byte of bytes) controller.enqueue(new Uint8Array([byte]));
        controller.close();
      },
    });
    expect(await text(post(stream))).toBe('{"a": 1.10, "b": "größe 🎉"}');
  });

  it.each([0, 10, 100, 64 * 1024, 65 * 1024, 3 * MIB])('reads %d bytes, announced or not', async (length) => {
    const body = new Uint8Array(length).map((_, at) => at);
    const announced = post(body, { 'content-length': String(length) });
    expect(Buffer.compare(await read(announced), body)).toBe(0);
    expect(Buffer.compare(await read(post(body)), body)).toBe(0);
  });

  it('leaves a byte order mark out', async () => {
    expect(await text(post('\ufeff{}'))).toBe('{}');
  });

  it.each([
    ['latin-1', Buffer.from('{"a":"Grüße"}', 'latin1'), /0xfc at offset 8/],
    ['UTF-16', Buffer.from('\ufeff{"a":1}', 'utf16le'), /encoded in UTF-16/],
    ['half a surrogate', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), /0xed at offset 1/],
    ['half a character', Buffer.from([0x22, 0xc3]), /0xc3 at offset 1/],
  ])('is refused in %s, where it is parsed', (_, given, message) => {
    expect(() => parseBody(given)).toThrow(expect.objectContaining({ status: 400, code: 'invalid_utf8' }));
    expect(() => parseBody(given)).toThrow(message);
  });

  it('takes a body of exactly the limit', async () => {
    expect(await text(post('x'.repeat(100)), 100)).toHaveLength(100);
    expect(await text(post('x'.repeat(100), { 'content-length': '100' }), 100)).toHaveLength(100);
  });

  it.each([{}, { 'content-length': '10000' }] as Record<string, string>[])(
    'refuses what is too large once it has been read, so that a client still sending hears the answer: %j',
    async (headers) => {
      const { stream, seen } = counted(1000, 10);
      const refused = readBody(post(stream, headers), env(), 20);
      await expect(refused).rejects.toMatchObject({ status: 413, code: 'too_large' });
      expect(seen.pieces).toBe(1000);
    },
  );

  it('reads the whole of an upload that is refused too', async () => {
    const { stream, seen } = counted(10, MIB);
    const upload = post(stream, { 'content-length': String(10 * MIB) });
    const place = { queueId: 'default', id: 'file-1', tenant: null, most: 3 * MIB };
    await expect(storeUpload(upload, env(), place, () => {})).rejects.toMatchObject({ status: 413 });
    expect(seen.pieces).toBe(10);
  });

  it('does not read without end', async () => {
    const { stream, seen } = counted(1000, MIB);
    await expect(readBody(post(stream), env(), 20)).rejects.toMatchObject({ status: 413 });
    expect(seen.pieces).toBeLessThan(400);
    const unwanted = counted(1000, MIB);
    await discardBody(post(unwanted.stream));
    expect(unwanted.seen.pieces).toBeLessThan(400);
  });

  it('reads a body that the kernel takes only while no other is read, and does not let it wait', async () => {
    const gone = new AbortController();
    const init = { method: 'POST', duplex: 'half', signal: gone.signal };
    const body = new ReadableStream({ type: 'bytes' });
    const refused = discardBody(new Request(post('').url, { ...init, body } as RequestInit));
    const short = { 'content-length': String(2 * MIB) };
    const unread = counted(10, 10);
    await discardBody(post(unread.stream, short));
    expect(unread.seen.pieces).toBe(0);
    const long = counted(10, 10);
    await discardBody(post(long.stream, { 'content-length': String(19 * MIB) }));
    expect(long.seen.pieces).toBe(10);
    gone.abort();
    const alone = counted(10, 10);
    await discardBody(post(alone.stream, short));
    expect(alone.seen.pieces).toBe(10);
    await refused;
  }, 60_000);

  it('answers at once when as many wait to be thrown away as may', async () => {
    const gone = new AbortController();
    const never = () => new ReadableStream({ type: 'bytes' });
    const refused = Array.from({ length: 116 }, () => {
      const { url } = post('');
      return discardBody(
        new Request(url, {
          method: 'POST',
          body: never(),
          duplex: 'half',
          signal: gone.signal,
        } as RequestInit),
      );
    });
    const { stream, seen } = counted(10, 10);
    await discardBody(post(stream));
    expect(seen.pieces).toBe(0);
    // Callers that hang up make room, and so do those that send nothing for 5 s.
    gone.abort();
    await discardBody(post(stream));
    expect(seen.pieces).toBe(10);
    await Promise.all(refused);
  }, 60_000);
});

describe('the memory that bodies may have together', () => {
  it('is free at once when a long one is let go', async () => {
    const { bytes, release } = await readBody(post(new Uint8Array(2 * MIB)), env());
    release();
    expect(bytes.buffer.byteLength).toBe(0);
  });

  const limited = env({ MAX_BODIES_BYTES: String(3 * MIB) });
  const body = (bytes: number) => post(new Uint8Array(bytes), { 'content-length': String(bytes) });

  it('is given back by each, and refused with a time to come back while others have it', async () => {
    const first = await readBody(body(2 * MIB), limited);
    const second = counted(20, MIB / 10);
    const refused = readBody(post(second.stream, { 'content-length': String(2 * MIB) }), limited);
    await expect(refused).rejects.toMatchObject({
      status: 503,
      code: 'gateway_full',
      headers: { 'retry-after': '1' },
      message: expect.stringContaining('3 MiB'),
    });
    // It was read and thrown away: the caller hears the answer.
    expect(second.seen.pieces).toBe(20);
    first.release();
    first.release();
    const third = await readBody(body(2 * MIB), limited);
    await expect(readBody(body(2 * MIB), limited)).rejects.toMatchObject({ status: 503 });
    third.release();
  });

  it('bounds bodies whose length nobody announced', async () => {
    const first = await readBody(body(2 * MIB), limited);
    const { stream, seen } = counted(30, MIB / 10);
    await expect(readBody(post(stream), limited)).rejects.toMatchObject({ status: 503 });
    expect(seen.pieces).toBe(30);
    first.release();
    (await readBody(post(counted(20, MIB / 10).stream), limited)).release();
  });

  it('is given back by a body that breaks off, is too long or too slow', async () => {
    const broken = new ReadableStream({
      type: 'bytes',
      pull: (controller) => controller.error(new Error('gone')),
    });
    await expect(readBody(post(broken, { 'content-length': String(2 * MIB) }), limited)).rejects.toThrow(
      'gone',
    );
    await expect(readBody(post(counted(50, MIB / 10).stream), limited, 2 * MIB)).rejects.toMatchObject({
      status: 413,
    });
    (await readBody(body(3 * MIB), limited)).release();
  });
});

describe('a body that comes slowly', () => {
  /** A body of which a piece comes every so many ms. */
  function dripping(bytes: number, everyMs: number): ReadableStream {
    return new ReadableStream({
      type: 'bytes',
      pull: async (controller) => {
        await new Promise((done) => setTimeout(done, everyMs));
        controller.enqueue(new Uint8Array(bytes));
      },
    });
  }

  /** A body that comes at once, but for its end. */
  function standingStill(bytes: number): ReadableStream {
    return new ReadableStream({
      type: 'bytes',
      start: (controller) => controller.enqueue(new Uint8Array(bytes)),
    });
  }

  it.each([
    ['of which nothing comes', post(new ReadableStream({ type: 'bytes' }), {}), 30_000],
    [
      'that is short and does not come',
      post(new ReadableStream({ type: 'bytes' }), { 'content-length': '100' }),
      30_000,
    ],
    ['that comes byte by byte', post(dripping(1, 100), {}), 30_000],
    ['that stands still after it came fast', post(standingStill(2 * MIB), {}), 31_000],
    ['that comes slower than 32 KiB a second', post(dripping(16 * 1024, 1000), {}), 60_000],
  ])('%s is answered 408', async (_, request, withinMs) => {
    vi.useFakeTimers();
    const refused = expect(readBody(request, env())).rejects.toMatchObject({
      status: 408,
      code: 'body_too_slow',
    });
    await vi.advanceTimersByTimeAsync(withinMs + 1000);
    await refused;
  });

  it('and takes a minute is read as long as it comes', async () => {
    vi.useFakeTimers();
    let pieces = 0;
    const stream = new ReadableStream({
      type: 'bytes',
      pull: async (controller) => {
        await new Promise((done) => setTimeout(done, 1000));
        if (pieces++ === 60) {
          controller.close();
          controller.byobRequest?.respond(0);
          return;
        }
        controller.enqueue(new Uint8Array(40 * 1024));
      },
    });
    const whole = read(post(stream));
    await vi.advanceTimersByTimeAsync(62_000);
    expect((await whole).byteLength).toBe(60 * 40 * 1024);
  });
});
