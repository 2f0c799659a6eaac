import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { startTestQueue } from '../support/test-queue.ts';

/** Callers that break off while their bodies come, in a real queue: what was counted for them is given back. */

const MIB = 1024 * 1024;
const road = startTestQueue({ MAX_BODIES_BYTES: String(24 * MIB) });

/** Announces a body, sends the beginning of it and breaks the connection off (RST). */
async function breakOff(method: string, path: string, announced: number): Promise<void> {
  const { hostname, port } = new URL(road.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  await once(socket, 'connect');
  const head = [`${method} ${path} HTTP/1.1`, `Host: ${hostname}:${port}`, `Content-Length: ${announced}`];
  socket.write(`${head.join('\r\n')}\r\n\r\n{"payload":"${'x'.repeat(4000)}`);
  // Until the gateway reads it.
  await new Promise((done) => setTimeout(done, 50));
  socket.resetAndDestroy();
}

async function submit(bytes: number, signal?: AbortSignal): Promise<{ status: number; code: string }> {
  const body = JSON.stringify({ job_type: 'chat_completion', payload: { text: 'x'.repeat(bytes) } });
  const response = await fetch(`${road.url}/api/jobs`, { method: 'POST', body, signal: signal ?? null });
  const { error } = (await response.json()) as { error: { code: string } };
  return { status: response.status, code: error.code };
}

describe('callers that break off while they send a body', () => {
  it.each(['/v1/chat/completions', '/api/jobs'])('leave room for others: %s', async (path) => {
    for (let n = 0; n < 4; n++) await breakOff('POST', path, 12 * MIB);
    // Nobody serves it here; it was read.
    expect(await submit(12 * MIB)).toMatchObject({ code: expect.stringMatching(/pool/) });
  });

  it('leave room for others that dial a socket and are gone with a frame on its way', async () => {
    for (let n = 0; n < 4; n++) {
      const socket = new WebSocket(`${road.url.replace('http', 'ws')}/api/jobs/socket`);
      await new Promise((done) => socket.addEventListener('open', done));
      const job = { id: `job-${n}`, job_type: 'chat_completion', payload: { text: 'x'.repeat(12 * MIB) } };
      socket.send(JSON.stringify({ type: 'submit', jobs: [job] }));
      socket.close();
      await new Promise((done) => socket.addEventListener('close', done));
    }
    expect(await submit(12 * MIB)).toMatchObject({ code: expect.stringMatching(/pool/) });
  });

  it('hold up no answer to others whose bodies are rejected', async () => {
    for (let n = 0; n < 17; n++) await breakOff('PUT', '/jobs/x/result?key=made-up', MIB);
    // Bodies that come no further would keep their places for thirty seconds.
    expect(await submit(21 * MIB, AbortSignal.timeout(25_000))).toMatchObject({ status: 413 });
  });
});
