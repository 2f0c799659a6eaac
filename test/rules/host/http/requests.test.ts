import { request as httpRequest } from 'node:http';
import { describe, expect, it } from 'vitest';
import { raw, serving } from './raw.ts';

/** What the gateway is given of a request, and how answers leave, over real sockets. */

const HOST = 'Host: 127.0.0.1';

/** Answers with what it was asked. */
const mirror = () =>
  serving(async (request) =>
    Response.json({
      method: request.method,
      url: request.url,
      headers: Object.fromEntries(request.headers),
      body: request.body ? await request.text() : null,
    }),
  );

const bodyIn = (answer: string) => JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4));

describe('a request', () => {
  it('comes with its method, address, headers and body', async () => {
    const { port } = await mirror();
    const head = [
      'PUT /a/%C3%A4?x=1&y HTTP/1.1',
      'Host: q.example:81',
      'X-A: 1',
      'X-A: 2',
      'Content-Length: 5',
    ];
    const caller = await raw(port, [...head, 'Connection: close'], 'hello');
    const answer = await caller.whole();
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(bodyIn(answer)).toMatchObject({
      method: 'PUT',
      url: 'http://q.example:81/a/%C3%A4?x=1&y',
      headers: { 'x-a': '1, 2' },
      body: 'hello',
    });
  });

  it('in HTTP/1.0 needs no Host: it is for the address that was called', async () => {
    const { port } = await mirror();
    const answer = await (await raw(port, ['GET /health HTTP/1.0'])).whole();
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(bodyIn(answer).url).toBe(`http://127.0.0.1:${port}/health`);
  });

  it('for /livez is answered whatever the gateway waits for', async () => {
    const { port } = await serving(() => new Promise(() => {}));
    const answer = await (await raw(port, ['GET /livez HTTP/1.1', HOST, 'Connection: close'])).whole();
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(bodyIn(answer)).toEqual({ status: 'ok' });
  });

  it('may name the whole address', async () => {
    const { port } = await mirror();
    const answer = await (
      await raw(port, ['GET http://q.example/a HTTP/1.1', HOST, 'Connection: close'])
    ).whole();
    expect(bodyIn(answer).url).toBe('http://q.example/a');
  });

  it('is answered in the order of a pipeline, on one connection', async () => {
    const { port } = await serving(async (request) => {
      const { pathname } = new URL(request.url);
      if (pathname === '/1') await new Promise((done) => setTimeout(done, 50));
      return new Response(`answer ${pathname};`);
    });
    const caller = await raw(port, [`GET /1 HTTP/1.1\r\n${HOST}\r\n\r\nGET /2 HTTP/1.1`, HOST]);
    await caller.hears('answer /2;');
    expect(caller.heard().indexOf('answer /1;')).toBeLessThan(caller.heard().indexOf('answer /2;'));
    expect(caller.heard()).toContain('Keep-Alive: timeout=65');
  });

  it('that names a protocol which is not spoken here is answered as if it had not', async () => {
    const { port } = await mirror();
    const head = ['POST / HTTP/1.1', HOST, 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c'];
    const caller = await raw(port, [...head, 'HTTP2-Settings: AA', 'Content-Length: 2'], 'hi');
    await caller.hears('"body":"hi"');
  });

  it('has a body that is read in pieces, as it comes', async () => {
    const pieces: string[] = [];
    const { port } = await serving(async ({ body }) => {
      const reader = body!.getReader({ mode: 'byob' });
      for (;;) {
        const { done, value } = await reader.read(new Uint8Array(4));
        if (done) return new Response(null, { status: 204 });
        pieces.push(new TextDecoder().decode(value));
      }
    });
    const caller = await raw(
      port,
      ['POST / HTTP/1.1', HOST, 'Transfer-Encoding: chunked'],
      '6\r\nabcdef\r\n',
    );
    caller.socket.write('1\r\ng\r\n0\r\n\r\n');
    await caller.hears('HTTP/1.1 204 No Content\r\n');
    expect(caller.heard()).not.toMatch(/content-length|transfer-encoding/i);
    expect(pieces.join('')).toBe('abcdefg');
    expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThanOrEqual(4);
  });

  it('is not read further than the gateway reads', async () => {
    let taken = 0;
    let goOn = () => {};
    const mayGoOn = new Promise<void>((done) => {
      goOn = done;
    });
    const { port } = await serving(async ({ body }) => {
      for await (const piece of body!) {
        taken += piece.byteLength;
        await mayGoOn;
      }
      return new Response('read');
    });
    const size = 64 * 1024 * 1024;
    const caller = await raw(port, ['POST / HTTP/1.1', HOST, `Content-Length: ${size}`], Buffer.alloc(size));
    await new Promise((done) => setTimeout(done, 300));
    // What the kernels hold between, and what Node reads ahead.
    expect(caller.socket.writableLength).toBeGreaterThan(size / 2);
    goOn();
    await caller.hears('read');
    expect(taken).toBe(size);
  });
});

describe('an answer', () => {
  it('in one piece tells its length', async () => {
    const { port } = await serving(() => new Response('hello'));
    const caller = await raw(port, ['GET / HTTP/1.1', HOST]);
    await caller.hears('hello');
    expect(caller.heard()).toContain('content-length: 5\r\n');
    expect(caller.heard()).toMatch(/\r\nDate: /);
    expect(caller.heard()).not.toMatch(/transfer-encoding/i);
  });

  it('without a body says so, and to HEAD has none', async () => {
    const { port } = await serving(({ method }) => new Response(method === 'HEAD' ? 'hello' : null));
    const caller = await raw(port, ['GET / HTTP/1.1', HOST]);
    await caller.hears('content-length: 0\r\n');
    caller.socket.write(`HEAD / HTTP/1.1\r\n${HOST}\r\n\r\nGET / HTTP/1.1\r\n${HOST}\r\n\r\n`);
    await caller.hears(/(HTTP\/1\.1 200 [\s\S]*){3}/);
    expect(caller.heard()).not.toContain('hello');
  });

  it('may set several cookies', async () => {
    const { port } = await serving(() => {
      const headers = new Headers({ 'set-cookie': 'a=1' });
      headers.append('set-cookie', 'b=2');
      return new Response('', { headers });
    });
    expect((await fetch(`http://127.0.0.1:${port}/`)).headers.getSetCookie()).toEqual(['a=1', 'b=2']);
  });

  it('in pieces leaves piece by piece, its head before all', async () => {
    let controller!: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({
      start: (given) => {
        controller = given;
      },
    });
    const { port } = await serving(() => new Response(body));
    const caller = await raw(port, ['GET / HTTP/1.1', HOST]);
    await caller.hears('HTTP/1.1 200 OK');
    controller.enqueue(Buffer.from('one'));
    await caller.hears('one');
    controller.enqueue(Buffer.from('two'));
    await caller.hears('two');
    controller.close();
    await caller.hears('\r\n0\r\n\r\n');
  });

  it.each(['1.0', '1.1'])('that fails in the middle is seen to be cut (HTTP/%s)', async (version) => {
    let controller!: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({
      start: (given) => {
        controller = given;
      },
    });
    const { port } = await serving(() => new Response(body));
    const caller = await raw(port, [`GET / HTTP/${version}`, HOST]);
    let fault: NodeJS.ErrnoException | null = null;
    caller.socket.on('error', (error) => {
      fault = error;
    });
    controller.enqueue(Buffer.from('beginning'));
    await caller.hears('beginning');
    controller.error(new Error('cut'));
    expect(await caller.whole()).not.toContain('\r\n0\r\n');
    expect(fault).toEqual(version === '1.0' ? expect.objectContaining({ code: 'ECONNRESET' }) : null);
  });

  it('that is shorter than it says is seen to be cut', async () => {
    const { port } = await serving(() => new Response('short', { headers: { 'content-length': '10' } }));
    await expect(fetch(`http://127.0.0.1:${port}/`).then((answer) => answer.text())).rejects.toThrow();
  });

  it('that its caller does not read is not read ahead', async () => {
    let made = 0;
    const { port } = await serving(() => {
      const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
        made += 1;
        controller.enqueue(new Uint8Array(64 * 1024));
      };
      return new Response(new ReadableStream({ pull }));
    });
    const caller = await raw(port, ['GET / HTTP/1.1', HOST]);
    caller.socket.pause();
    await new Promise((done) => setTimeout(done, 500));
    const before = made;
    await new Promise((done) => setTimeout(done, 200));
    expect(made).toBe(before);
    expect(made).toBeLessThan(1000);
    caller.socket.destroy();
  });
});

describe('a body that nobody reads', () => {
  it('is not asked for: its caller hears the answer at once', async () => {
    const { port } = await serving(() => new Response('too large', { status: 413 }));
    const head = ['POST / HTTP/1.1', HOST, 'Expect: 100-continue', 'Content-Length: 300000000'];
    const caller = await raw(port, head);
    await caller.hears('too large');
    expect(caller.heard()).toMatch(/^HTTP\/1\.1 413 /);
    expect(caller.heard()).toContain('connection: close');
  });

  it('is asked for when it is read', async () => {
    const { port } = await serving(async (request) => new Response(await request.text()));
    const caller = await raw(port, ['POST / HTTP/1.1', HOST, 'Expect: 100-continue', 'Content-Length: 2']);
    await caller.hears('HTTP/1.1 100 Continue\r\n\r\n');
    expect(caller.heard()).not.toContain('200');
    caller.socket.write('hi');
    await caller.hears(/200 OK[\s\S]*hi$/);
  });

  it('costs its caller no answer, though more comes than the connection holds', async () => {
    const { port, url } = await serving(() => Response.json({ error: 'no' }, { status: 401 }));
    const body = Buffer.alloc(16 * 1024 * 1024);
    for (let n = 0; n < 5; n++) {
      const status = await new Promise<number>((done, failed) => {
        const request = httpRequest(url, { method: 'POST', port }, (answer) => {
          answer.resume().on('end', () => done(answer.statusCode!));
        });
        request.on('error', failed).end(body);
      });
      expect(status).toBe(401);
    }
  });
});
