import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { deliver } from '../../../../src/durable/deliver.ts';
import { createPost } from '../../../../src/host/node/http/post.ts';
import { freePort } from '../../../support/ports.ts';
import { resolver } from '../../../support/resolver.ts';

/** Where webhooks and alerts go. */

const paths: string[] = [];
let connections = 0;
const receiver = createServer((request, response) => {
  paths.push(request.url ?? '');
  response.writeHead(request.url === '/moved' ? 307 : 200, { location: '/redirected' }).end('ok');
});
receiver.on('connection', () => {
  connections += 1;
});
let port: number;
beforeAll(async () => {
  receiver.listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  port = (receiver.address() as AddressInfo).port;
});
afterAll(() => {
  receiver.closeAllConnections();
  receiver.close();
});

describe('a post', () => {
  it.each(['127.0.0.1', '[::ffff:127.0.0.1]', '127.1', 'inside.example'])(
    'to the public reaches no private address: %s',
    async (host) => {
      const post = createPost(resolver({ 'inside.example': ['127.0.0.1', '10.0.0.1'] }));
      for (const scheme of ['http', 'https']) {
        const delivery = await deliver(post('public'), `${scheme}://${host}:${port}/`, '{}');
        expect(delivery).toEqual({ problem: expect.stringContaining('private:HOST in QUEUE_WEBHOOK_HOSTS') });
      }
      expect(connections).toBe(0);
    },
  );

  it('to a host that was named as private reaches it, and follows no redirect', async () => {
    const post = createPost()('private');
    expect(await deliver(post, `http://127.0.0.1:${port}/here`, '{}')).toEqual({ status: 200 });
    expect(await deliver(post, `http://127.0.0.1:${port}/moved`, '{}')).toEqual({ status: 307 });
    expect(paths).toEqual(['/here', '/moved']);
  });

  it('that fails says why', async () => {
    const free = await freePort();
    const delivery = await deliver(createPost()('private'), `http://127.0.0.1:${free}/`, '{}');
    expect(delivery).toEqual({ problem: expect.stringContaining('ECONNREFUSED') });
  });
});
