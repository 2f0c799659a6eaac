import { createServer as createHttpServer, type IncomingMessage } from 'node:http';
import type { Server as NetServer } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { createEngineClient } from '../../../src/engine/client/client.ts';
import { EngineGone, EngineUnreachable } from '../../../src/engine/client/types.ts';
import { external } from '../../../src/engine/kinds/external.ts';
import { until } from '../../support/poll.ts';
import { freePort } from '../../support/ports.ts';
import {
  bytes,
  chat,
  clientOf,
  closeEngines,
  listen,
  rawServer,
  text,
  tidy,
  trackedServer,
} from '../../support/small-engine.ts';

afterEach(closeEngines);

describe('the engine client', () => {
  it('sends the request as it was made and gives back status, content headers and bytes', async () => {
    let seen: { url?: string; headers: IncomingMessage['headers']; body: string } | undefined;
    const client = await clientOf(async (request, response) => {
      const body = await text(request);
      seen = { url: request.url, headers: request.headers, body };
      response.writeHead(418, { 'content-type': 'text/plain', connection: 'keep-alive', 'x-extra': 'yes' });
      response.end('short and stout');
    });
    const answer = await client.request({
      method: 'POST',
      path: '/v1/chat/completions?x=1',
      body: '{"seed": 12345678901234567890}',
      requestId: 'job-42',
      signal: new AbortController().signal,
    });
    expect(answer.status).toBe(418);
    expect(answer.headers).toMatchObject({ 'content-type': 'text/plain', 'x-extra': 'yes' });
    expect(answer.headers).not.toHaveProperty('connection');
    expect(await bytes(answer.body)).toBe('short and stout');
    expect(seen).toMatchObject({ url: '/v1/chat/completions?x=1', body: '{"seed": 12345678901234567890}' });
    expect(seen?.headers).toMatchObject({
      'x-request-id': 'job-42',
      'content-type': 'application/json',
      authorization: 'Bearer key',
    });
  });

  it('names every request, one that may not be called so by another id', async () => {
    const seen: unknown[] = [];
    const client = await clientOf((request, response) => {
      seen.push(request.headers['x-request-id']);
      response.end();
    });
    for (const requestId of ['é', '___decode_addr_evil:1_0']) {
      const { signal } = new AbortController();
      const { body } = await client.request({ method: 'POST', path: '/', body: '{}', requestId, signal });
      await bytes(body);
    }
    const uuid = expect.stringMatching(/^[\da-f-]{36}$/);
    expect(seen).toEqual([uuid, uuid]);
  });

  it('closes the socket when the signal fires before the answer', async () => {
    const engine = trackedServer(() => {});
    const client = await clientOf(engine.handler);
    const abort = new AbortController();
    const asked = client.request(chat(abort.signal));
    await until(() => engine.open() === 1, 'the request is at the engine');
    abort.abort();
    await expect(asked).rejects.toMatchObject({ name: 'AbortError' });
    await until(() => engine.open() === 0, 'the engine sees the socket close');
  });

  it('closes the socket when the signal fires in the middle of the answer', async () => {
    const engine = trackedServer((response) => void response.write('data: 1\n\n'));
    const client = await clientOf(engine.handler);
    const abort = new AbortController();
    const answer = await client.request(chat(abort.signal));
    const reading = bytes(answer.body);
    abort.abort();
    await expect(reading).rejects.toMatchObject({ name: 'AbortError' });
    await until(() => engine.open() === 0, 'the engine sees the socket close');
  });

  it('closes the socket when the reader leaves early', async () => {
    const engine = trackedServer((response) => void response.write('data: 1\n\n'));
    const client = await clientOf(engine.handler);
    const answer = await client.request(chat());
    for await (const _ of answer.body) break;
    await until(() => engine.open() === 0, 'the engine sees the socket close');
  });

  it('says EngineUnreachable with the address when nothing listens', async () => {
    const port = await freePort();
    const client = tidy(createEngineClient({ baseUrl: `http://127.0.0.1:${port}` }));
    const error = await client.request(chat()).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(EngineUnreachable);
    expect((error as Error).message).toContain(`http://127.0.0.1:${port}`);
    expect(await client.probe(1000)).toBe('refused');
  });

  it('says EngineGone with the address when the answer is cut', async () => {
    const client = await clientOf((_request, response) => {
      response.write('half');
      setImmediate(() => response.destroy());
    });
    const answer = await client.request(chat());
    const error = await bytes(answer.body).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(EngineGone);
    expect((error as Error).message).toContain('http://127.0.0.1:');
  });

  it('sends again, once, when a kept socket turns out to be closed', async () => {
    let connections = 0;
    const port = await rawServer((socket) => {
      connections += 1;
      let requests = 0;
      socket.on('data', () => {
        requests += 1;
        // The first socket answers once and resets on reuse, as one that was closed in that moment.
        if (connections === 1 && requests === 2) socket.resetAndDestroy();
        else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
      });
    });
    const client = tidy(createEngineClient({ baseUrl: `http://127.0.0.1:${port}` }));
    expect(await bytes((await client.request(chat())).body)).toBe('ok');
    expect(await bytes((await client.request(chat())).body)).toBe('ok');
    expect(connections).toBe(2);
  });

  it('closes an idle socket by itself, however long the engine would keep it', async () => {
    let closed = false;
    const port = await rawServer((socket) => {
      socket.once('close', () => {
        closed = true;
      });
      socket.on('data', () =>
        socket.write('HTTP/1.1 200 OK\r\nkeep-alive: timeout=600\r\ncontent-length: 2\r\n\r\nok'),
      );
    });
    const client = tidy(createEngineClient({ baseUrl: `http://127.0.0.1:${port}` }));
    expect(await bytes((await client.request(chat())).body)).toBe('ok');
    await until(() => closed, 'the idle socket is closed');
  });

  it('says EngineGone when the engine cuts every connection before it answers', async () => {
    let requests = 0;
    const port = await rawServer((socket) => {
      socket.on('data', () => {
        requests += 1;
        socket.resetAndDestroy();
      });
    });
    const client = tidy(createEngineClient({ baseUrl: `http://127.0.0.1:${port}` }));
    await expect(client.request(chat())).rejects.toBeInstanceOf(EngineGone);
    expect(requests).toBe(2);
  });

  it('says EngineGone, not EngineUnreachable, when the engine dies under the request', async () => {
    let server: NetServer | undefined;
    const port = await rawServer(
      (socket) => {
        socket.on('data', () => {
          server?.close();
          socket.resetAndDestroy();
        });
      },
      (started) => {
        server = started;
      },
    );
    const client = tidy(createEngineClient({ baseUrl: `http://127.0.0.1:${port}` }));
    await expect(client.request(chat())).rejects.toBeInstanceOf(EngineGone);
  });

  it('says EngineGone to requests in flight when it is closed', async () => {
    const engine = trackedServer(() => {});
    const client = await clientOf(engine.handler);
    const asked = client.request(chat());
    await until(() => engine.open() === 1, 'the request is at the engine');
    const outcome = expect(asked).rejects.toBeInstanceOf(EngineGone);
    await client.close();
    await outcome;
  });

  it('runs many requests side by side, each on a socket of its own', async () => {
    const engine = trackedServer(() => {});
    const client = await clientOf(engine.handler);
    const abort = new AbortController();
    const asked = Array.from({ length: 20 }, () => client.request(chat(abort.signal)).catch(() => {}));
    await until(() => engine.open() === 20, '20 requests are at the engine');
    abort.abort();
    await Promise.all(asked);
  });

  it('is healthy only on 200, and asks the next route only on 404', async () => {
    let health = 503;
    const client = await clientOf((request, response) => {
      response.writeHead(request.url === '/health' ? health : 200).end();
    }, external);
    expect(await client.probe(1000)).toBe('unhealthy');
    health = 200;
    expect(await client.isHealthy(1000)).toBe(true);
    health = 404;
    expect(await client.isHealthy(1000)).toBe(true);
  });

  it('counts a late health answer as unhealthy', async () => {
    const client = await clientOf(() => {});
    expect(await client.probe(50)).toBe('unhealthy');
  });

  it('lists the models, and none when the engine does not tell', async () => {
    const told = await clientOf((_request, response) => {
      response.end('{"data":[{"id":"a"},{"id":"b"}]}');
    });
    expect(await told.models()).toEqual(['a', 'b']);
    const silent = await clientOf((_request, response) => {
      response.writeHead(404).end();
    });
    expect(await silent.models()).toEqual([]);
  });

  it('sums the counts over their labels and takes the fullest cache', async () => {
    const client = await clientOf((_request, response) => {
      response.end(
        [
          '# TYPE vllm:num_requests_running gauge',
          'vllm:num_requests_running{engine="0",model_name="a}b"} 3.0',
          'vllm:num_requests_running{engine="1"} 4.0',
          'vllm:num_requests_running_created{engine="0"} 1.7e+09',
          'vllm:num_requests_waiting{engine="0"} 2.0',
          'vllm:kv_cache_usage_perc{engine="0"} 0.25',
          'vllm:kv_cache_usage_perc{engine="1"} 0.5',
          'vllm:generation_tokens_total{engine="0"} 10.0',
          'vllm:generation_tokens_total{engine="1"} 20.0',
        ].join('\n'),
      );
    });
    expect(await client.gauges()).toEqual({
      running: 7,
      waiting: 2,
      kvCacheUsage: 0.5,
      progress: 30,
      generatedTokens: 30,
    });
  });

  it('asks for the version, which not every engine tells', async () => {
    const vllm = await clientOf((_request, response) => void response.end('{"version":"0.32.0"}'));
    expect(await vllm.version()).toBe('0.32.0');
    const silent = await clientOf((_request, response) => void response.writeHead(404).end());
    expect(await silent.version()).toBeNull();
    const other = await clientOf((_request, response) => void response.end('null'));
    expect(await other.version()).toBeNull();
  });

  it('has no gauges when the engine has no metrics page, or one without them', async () => {
    const missing = await clientOf((_request, response) => void response.writeHead(404).end());
    expect(await missing.gauges()).toBeNull();
    const other = await clientOf((_request, response) => void response.end('python_gc_total 1'));
    expect(await other.gauges()).toBeNull();
  });

  it('takes an address with a closing /v1 or behind a prefix', async () => {
    const port = await listen(createHttpServer((request, response) => void response.end(request.url)));
    for (const [suffix, path] of [
      ['/v1', '/v1/x'],
      ['/v1/', '/v1/x'],
      ['/team/v1', '/team/v1/x'],
    ]) {
      const client = tidy(createEngineClient({ baseUrl: `http://127.0.0.1:${port}${suffix}` }));
      const answer = await client.request({ ...chat(), method: 'GET', path: '/v1/x', body: undefined });
      expect(await bytes(answer.body)).toBe(path);
    }
  });
});
