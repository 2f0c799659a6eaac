import { describe, expect, it } from 'vitest';
import { until } from '../../../support/poll.ts';
import { raw, serving } from './raw.ts';

/** Callers that leave, and what is no request. */

const HOST = 'Host: 127.0.0.1';
const GET = ['GET / HTTP/1.1', HOST];

/** A server whose requests wait until their callers are gone. */
async function waiting() {
  const seen = { begun: 0, gone: 0 };
  const server = await serving(async ({ signal }) => {
    seen.begun += 1;
    await new Promise<void>((done) => signal.addEventListener('abort', () => done()));
    seen.gone += 1;
    return new Response('late');
  });
  return { ...server, seen };
}

describe('a caller that leaves', () => {
  it.each(['closes in order', 'breaks off'])(
    'is missed while its answer is being made: it %s',
    async (how) => {
      const { port, seen } = await waiting();
      const caller = await raw(port, GET);
      await until(() => seen.begun === 1, 'it is asked');
      if (how === 'breaks off') caller.socket.resetAndDestroy();
      else caller.socket.destroy();
      await until(() => seen.gone === 1, 'the signal fires');
    },
  );

  it('with several requests on its connection is missed by each', async () => {
    const { port, seen } = await waiting();
    const caller = await raw(port, [`GET / HTTP/1.1\r\n${HOST}\r\n\r\nGET / HTTP/1.1`, HOST]);
    await until(() => seen.begun === 2, 'both are asked');
    caller.socket.destroy();
    await until(() => seen.gone === 2, 'both signals fire');
  });

  it('behind a hundred requests on one connection is not waited for', async () => {
    const { port, seen } = await waiting();
    const caller = await raw(
      port,
      Array.from({ length: 200 }, () => `${GET.join('\r\n')}\r\n\r\n`),
      '',
    );
    await caller.whole();
    await until(() => seen.gone === seen.begun, 'all signals fire');
    expect(seen.begun).toBeLessThanOrEqual(101);
  });

  it.each(['closes in order', 'breaks off'])('ends the body that it was sent: it %s', async (how) => {
    let cancelled = false;
    let isGone = false;
    const { port } = await serving(({ signal }) => {
      signal.addEventListener('abort', () => {
        isGone = true;
      });
      const cancel = () => {
        cancelled = true;
      };
      return new Response(
        new ReadableStream({ start: (body) => body.enqueue(Buffer.from('beginning')), cancel }),
      );
    });
    const caller = await raw(port, GET);
    await caller.hears('beginning');
    if (how === 'breaks off') caller.socket.resetAndDestroy();
    else caller.socket.destroy();
    await until(() => cancelled && isGone, 'the body is cancelled');
  });

  it('in the middle of its body ends what reads it, without a line of the log', async () => {
    let fault: unknown = null;
    const { port } = await serving(async (request) => {
      await request.text().catch((error: unknown) => {
        fault = error;
      });
      return new Response('');
    });
    const caller = await raw(port, ['POST / HTTP/1.1', HOST, 'Content-Length: 10'], 'begin');
    caller.socket.destroy();
    await until(() => fault !== null, 'the read fails');
    expect(fault).toMatchObject({ name: 'HttpError', code: 'caller_gone' });
  });

  it('is answered all the same when it closed its side behind the request', async () => {
    const { port } = await serving(async ({ signal }) => {
      await new Promise<void>((done) => signal.addEventListener('abort', () => done()));
      return new Response('here you are');
    });
    const caller = await raw(port, GET);
    caller.socket.end();
    expect(await caller.whole()).toContain('here you are');
  });

  it('is not waited for when it closed its side', async () => {
    const { port } = await serving(() => new Response(new ReadableStream()));
    const caller = await raw(port, GET);
    caller.socket.end();
    await caller.whole();
  });
});

describe('what is no request', () => {
  it.each([
    ['no HTTP', 'SSH-2.0-OpenSSH_9.2', 400, 'invalid_request'],
    ['a length that is no number', `POST / HTTP/1.1\r\n${HOST}\r\nContent-Length: x`, 400, 'invalid_request'],
    [
      'two lengths',
      `POST / HTTP/1.1\r\n${HOST}\r\nContent-Length: 1\r\nContent-Length: 2`,
      400,
      'invalid_request',
    ],
    [
      'a length beside chunks',
      `POST / HTTP/1.1\r\n${HOST}\r\nContent-Length: 1\r\nTransfer-Encoding: chunked`,
      400,
      'invalid_request',
    ],
    [
      'a head that is too large',
      `GET / HTTP/1.1\r\n${HOST}\r\nX: ${'x'.repeat(200_000)}`,
      431,
      'head_too_large',
    ],
    ['no host', 'GET / HTTP/1.1', 400, 'invalid_host'],
    ['a host that is none', 'GET / HTTP/1.1\r\nHost: a b', 400, 'invalid_host'],
    ['a host with a name of a user', 'GET / HTTP/1.1\r\nHost: a@b', 400, 'invalid_host'],
    [
      'an expectation that nobody here meets',
      `GET / HTTP/1.1\r\n${HOST}\r\nExpect: magic`,
      417,
      'expectation_failed',
    ],
    ['no path', `OPTIONS * HTTP/1.1\r\n${HOST}`, 400, 'invalid_target'],
    ['a method that goes elsewhere', `CONNECT q.example:443 HTTP/1.1\r\n${HOST}`, 405, 'method_not_allowed'],
    ['a method that is not possible', `TRACE / HTTP/1.1\r\n${HOST}`, 405, 'method_not_allowed'],
  ])('is answered with an error in our form: %s', async (_what, head, status, code) => {
    const { port } = await serving(() => new Response('reached'));
    const caller = await raw(port, [head]);
    await caller.hears('\r\n\r\n{');
    expect(caller.heard()).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    await until(() => caller.heard().endsWith('}'), 'all of it');
    const { error } = JSON.parse(caller.heard().slice(caller.heard().indexOf('{')));
    expect(error).toMatchObject({ code, message: expect.any(String) });
    caller.socket.end();
    await caller.whole();
  });

  it('names what the parser found', async () => {
    const { port } = await serving(() => new Response('reached'));
    const caller = await raw(port, ['GET / HTTP/1.1', 'Host 127.0.0.1']);
    await caller.hears(/no request of HTTP\/1\.1 \(Invalid header token\)/);
  });

  it.each([
    ['at once', '5\r\nzz'],
    ['behind a piece', '5\r\nabcde\r\nzz\r\nabc\r\n'],
  ])('within a body is what the reader of the body gets: %s', async (_when, body) => {
    const { port } = await serving(async (request) => new Response(await request.text()));
    const caller = await raw(port, ['POST / HTTP/1.1', HOST, 'Transfer-Encoding: chunked'], body);
    caller.socket.write('more of it');
    const answer = await caller.whole();
    expect(answer).toMatch(/^HTTP\/1\.1 400 [\s\S]*The chunks of the body cannot be read \(/);
    expect(answer).toMatch(/connection: close/i);
  });

  it('within a body that nobody reads changes no answer', async () => {
    const { port } = await serving(() => new Response('refused', { status: 403 }));
    const caller = await raw(port, ['POST / HTTP/1.1', HOST, 'Transfer-Encoding: chunked'], 'zz\r\n');
    expect(await caller.whole()).toMatch(/^HTTP\/1\.1 403 [\s\S]*refused$/);
  });

  it('behind a request that is being answered breaks the connection off', async () => {
    const { port, seen } = await waiting();
    const caller = await raw(port, [`GET / HTTP/1.1\r\n${HOST}\r\n\r\nnonsense`]);
    await until(() => seen.gone === 1, 'the signal fires');
    expect(await caller.whole()).toBe('');
  });
});

it('a connection may be silent before its request for longer than a head may take', async () => {
  const { port } = await serving(() => new Response('the answer'));
  const silent = await raw(port, []);
  const slow = await raw(port, [], 'GET / HTTP/1.1\r\n');
  await slow.hears('HTTP/1.1 408');
  silent.socket.write(`${GET.join('\r\n')}\r\n\r\n`);
  await silent.hears('the answer');
});

describe('an end of the server', () => {
  it('lets what is being answered end, and takes no more', async () => {
    let goOn: (() => void) | null = null;
    const { port, close } = await serving(async () => {
      await new Promise<void>((done) => {
        goOn = done;
      });
      return new Response('the answer');
    });
    const idle = await raw(port, []);
    const caller = await raw(port, GET);
    const answer = await until(() => goOn, 'it is asked');
    const closed = close(60_000);
    await idle.whole();
    answer();
    expect(await caller.whole()).toContain('the answer');
    await closed;
    await expect(raw(port, [])).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  it('breaks off what takes longer', async () => {
    const { port, seen, close } = await waiting();
    const caller = await raw(port, GET);
    await until(() => seen.begun === 1, 'it is asked');
    await close(100);
    expect(await caller.whole()).toBe('');
    expect(seen.gone).toBe(1);
  });
});

it('a port that is taken is told as the system tells it', async () => {
  const { port } = await serving(() => new Response(''));
  const { createServer } = await import('../../../../src/host/node/http/server.ts');
  const taken = createServer({ fetch: () => new Response(''), host: '127.0.0.1', port });
  await expect(taken).rejects.toMatchObject({ code: 'EADDRINUSE' });
});
