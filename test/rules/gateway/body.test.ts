import { describe, expect, it } from 'vitest';
import { readFacts, readText } from '../../../src/gateway/body.ts';

function post(body: string | ReadableStream | Uint8Array, headers: Record<string, string> = {}): Request {
  return new Request('http://localhost/', { method: 'POST', body, headers, duplex: 'half' } as RequestInit);
}

/** A body that tells how much of it was read. */
function counted(pieces: number, bytes: number) {
  const seen = { pieces: 0 };
  const stream = new ReadableStream(
    {
      pull: (controller) => {
        if (seen.pieces === pieces) return controller.close();
        seen.pieces += 1;
        controller.enqueue(new Uint8Array(bytes).fill(120));
      },
    },
    { highWaterMark: 0 },
  );
  return { stream, seen };
}

describe('reading a body', () => {
  it('keeps the text as it came, characters across pieces included', async () => {
    const bytes = new TextEncoder().encode('{"a": 1.10, "b": "größe 🎉"}');
    const stream = new ReadableStream({
      start: (controller) => {
        for (const byte of bytes) controller.enqueue(new Uint8Array([byte]));
        controller.close();
      },
    });
    expect(await readText(post(stream))).toBe('{"a": 1.10, "b": "größe 🎉"}');
  });

  it('takes a body of exactly the limit', async () => {
    expect(await readText(post('x'.repeat(100)), 100)).toHaveLength(100);
  });

  it('refuses what is too large once it has been read, so that a client still sending hears the answer', async () => {
    const { stream, seen } = counted(1000, 10);
    await expect(readText(post(stream), 20)).rejects.toMatchObject({ status: 413, code: 'too_large' });
    expect(seen.pieces).toBe(1000);
  });

  it('does not read without end', async () => {
    const { stream, seen } = counted(1000, 1024 * 1024);
    await expect(readText(post(stream), 20)).rejects.toMatchObject({ status: 413 });
    expect(seen.pieces).toBeLessThan(400);
  });
});

describe('what the gateway reads of a request', () => {
  it('is the model and how the answer is to come', () => {
    expect(readFacts('{"model":"m","stream":true,"stream_options":{"include_usage":true}}')).toEqual({
      model: 'm',
      stream: true,
      includeUsage: true,
    });
  });

  it('is nothing more than that', () => {
    expect(readFacts('{"messages":[]}')).toEqual({ model: null, stream: false, includeUsage: false });
    expect(readFacts('{"model":"","stream":null,"stream_options":null}')).toEqual({
      model: null,
      stream: false,
      includeUsage: false,
    });
  });

  it.each(['', '{', '[]', '"text"', 'null', '{"model":5}'])('refuses %j with 400', (text) => {
    expect(() => readFacts(text)).toThrow(expect.objectContaining({ status: 400 }));
  });
});
