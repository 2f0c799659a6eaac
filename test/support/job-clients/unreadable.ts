import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { WebSocketServer } from 'ws';
import { chatJob } from '../road.ts';
import type { Program } from './program.ts';

const servers: WebSocketServer[] = [];

/** A queue that takes every job and says this next, of a job by its id. */
async function queueThatSays(frame: (id: string) => string): Promise<string> {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  servers.push(server);
  await once(server, 'listening');
  server.on('connection', (socket) => {
    socket.on('message', (data) => {
      const said = JSON.parse(data.toString()) as { type: string; jobs: { id: string }[] };
      if (said.type !== 'submit') return;
      const ids = said.jobs.map(({ id }) => id);
      socket.send(JSON.stringify({ type: 'submitted', answers: ids.map((id) => ({ id })) }));
      for (const id of ids) socket.send(frame(id));
    });
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Frames that no queue of ours sends: a job ends with an error, and does not wait for ever. */
export function unreadableFrames(program: () => Program): void {
  afterEach(() => {
    for (const server of servers.splice(0)) {
      for (const socket of server.clients) socket.terminate();
      server.close();
    }
  });

  describe.each([
    ['settled without jobs', () => '{"type":"settled"}'],
    ['settled with jobs that are none', () => '{"type":"settled","jobs":[null]}'],
    ['settled with a job without an id', () => '{"type":"settled","jobs":[{"state":"succeeded"}]}'],
    ['settled with a job without a state', (id: string) => `{"type":"settled","jobs":[{"id":"${id}"}]}`],
    ['answers that are none', () => '{"type":"submitted","answers":7}'],
    ['no object', () => 'null'],
    ['no JSON', () => '{"type":"settled","jobs":['],
  ])('a frame with %s', (_name, frame) => {
    it('ends what is open with an error', async () => {
      const url = await queueThatSays(frame);
      const connection = program().connection({ url, retries: 0 });
      const error = await connection.run(chatJob(1, { id: 'j' })).then(
        () => null,
        (told: { message: string }) => told,
      );
      expect(error?.message).toMatch(/frame that cannot be read|connection failed/i);
      await connection.close();
    });
  });
}
