import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { addressesFrom, httpPlatform } from '../../../src/worker/runpod/http-platform.ts';
import { type Platform, readTakenJob } from '../../../src/worker/runpod/platform.ts';

/** RunPod's platform over HTTP, where it answers oddly. */

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

const paths: string[] = [];

async function platformOf(answer: Parameters<typeof createServer>[1]): Promise<Platform> {
  const server: Server = createServer(answer);
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  const at = (name: string) => `http://127.0.0.1:${port}/v2/e/${name}/$RUNPOD_POD_ID/$ID`;
  const templates = { take: at('job-take'), done: at('job-done'), stream: at('job-stream'), ping: null };
  const addresses = addressesFrom(templates, 'pod');
  const platform = httpPlatform({ addresses, apiKey: 'key', pingIntervalMs: 1000 });
  ends.push(() => {
    platform.close?.();
    server.closeAllConnections();
    server.close();
  });
  return platform;
}

describe('an answer without an end', () => {
  it.each([
    [
      'a post',
      (platform: Platform) =>
        platform.post({ to: 'done', jobId: 'j', body: '{}' }, new AbortController().signal),
    ],
    ['a question for stops', (platform: Platform) => platform.stops!(false, new AbortController().signal)],
    ['a take', (platform: Platform) => platform.take(1, false, new AbortController().signal)],
  ])('to %s is left once it is larger than any', async (_name, ask) => {
    let isLeft = false;
    const platform = await platformOf((request, response) => {
      request.resume();
      response.once('close', () => {
        isLeft = true;
      });
      response.writeHead(200);
      const piece = Buffer.alloc(256 * 1024, ' ');
      const more = () => {
        while (!isLeft && response.write(piece));
      };
      response.on('drain', more);
      more();
    });
    const { status, problem } = await ask(platform);
    expect([status, problem]).toEqual([null, expect.stringMatching(/^the answer has more than \d+ bytes$/)]);
  });
});

describe('the id of a job', () => {
  it.each(['\ud800', 'a\udfff', '..', '.', ''])('is not taken as %j, which no address can hold', (id) => {
    expect(readTakenJob({ id, input: {} })).toBeNull();
  });

  it.each(['grün-✓', 'a/../b', 'a\r\nx: y', '%2e%2e', '...', 'a?b#c'])(
    'stands in its address as %j',
    async (id) => {
      paths.length = 0;
      const platform = await platformOf((request, response) => {
        paths.push(request.url!);
        request.resume().once('end', () => response.end('{}'));
      });
      const job = readTakenJob({ id, input: {} })!;
      const answer = await platform.post(
        { to: 'done', jobId: job.id, body: '{}' },
        new AbortController().signal,
      );
      expect(answer.status).toBe(200);
      const [, named] = /^\/v2\/e\/job-done\/pod\/([^/?]*)\?isStream=true$/.exec(paths[0]!)!;
      expect(decodeURIComponent(named!)).toBe(id);
    },
  );
});
