import { once } from 'node:events';
import { globSync, readdirSync, statSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** Uploads that would keep the gateway's memory, its disk or its descriptors, on the runtime itself. */
const MIB = 1024 * 1024;
const road = startTestQueue({
  TOKENS: JSON.stringify(['a', 'b', 'c', 'd', 'e'].map((token) => tokenEntry(token, ['submit']))),
  MAX_FILE_BYTES: String(MIB),
});

const opened: Upload[] = [];
afterEach(() => {
  for (const { socket } of opened.splice(0)) socket.destroy();
});

interface Upload {
  socket: Socket;
  /** Status of the answer; null: none has come. */
  status(): number | null;
}

/** Sends the head of an upload and the beginning of its body, and no more. */
async function begin(token: string, sent: number, head: string[] = ['Transfer-Encoding: chunked']) {
  const { hostname, port } = new URL(road.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  let heard = '';
  socket.setEncoding('latin1').on('data', (text) => {
    heard += text;
  });
  await once(socket, 'connect');
  const lines = [
    'POST /v1/files?purpose=batch HTTP/1.1',
    `Host: ${hostname}:${port}`,
    `Authorization: Bearer ${token}`,
    'Content-Type: application/jsonl',
    ...head,
  ];
  socket.write(`${lines.join('\r\n')}\r\n\r\n`);
  if (sent > 0) socket.write(`${sent.toString(16)}\r\n${'x'.repeat(sent)}\r\n`);
  const status = () => Number(/^HTTP\/1\.1 (\d+)/.exec(heard)?.[1] ?? 0) || null;
  const upload: Upload = { socket, status };
  opened.push(upload);
  return upload;
}

const upload = async (token: string, content = 'x') => {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/jsonl' };
  return await fetch(`${road.url}/v1/files?purpose=batch`, { method: 'POST', headers, body: content });
};

const databases = () => {
  const paths = globSync(join(road.stateDir, 'data', '*', 'files.sqlite'));
  return paths.map((path) => statSync(path).size);
};

describe('uploads that stand still', () => {
  it('are refused beyond 16 of a token and 48 of all, at once, and answered 408 in the end', async () => {
    const own = await Promise.all(Array.from({ length: 40 }, () => begin('a', 200_000)));
    const refused = (those: Upload[], status: number) =>
      those.filter((one) => one.status() === status).length;
    await until(() => refused(own, 429) === 24, 'all but 16 are refused');
    // Others have their own places, until those of all are taken.
    expect((await upload('b')).status).toBe(200);
    const others = await Promise.all(
      ['b', 'c', 'd'].flatMap((token) => Array.from({ length: 16 }, () => begin(token, 1000))),
    );
    await until(() => refused(others, 503) === 16, 'all but 48 are refused');
    expect((await upload('e')).status).toBe(503);
    const waiting = [...own, ...others].filter((one) => one.status() === null);
    // A byte now and then is no reason to wait for more.
    const dripping = setInterval(() => {
      for (const { socket } of waiting) socket.write('1\r\nx\r\n');
    }, 1000);
    await until(() => waiting.every((one) => one.status() === 408), 'the others are too slow', {
      timeoutMs: 100_000,
    });
    clearInterval(dripping);
    expect((await upload('e')).status).toBe(200);
  });

  it('give their places back when their callers break off', async () => {
    for (let n = 0; n < 20; n++) {
      const { socket } = await begin('a', 200_000);
      // Until the gateway reads it.
      await new Promise((done) => setTimeout(done, 30));
      socket.resetAndDestroy();
    }
    await until(async () => (await upload('a')).status === 200, 'there is a place');
  });
});

describe('an upload that is too long', () => {
  it('is refused at once when it says so', async () => {
    const one = await begin('a', 0, [`Content-Length: ${3000 * MIB}`]);
    await until(() => one.status() === 413, 'the answer', { timeoutMs: 25_000 });
  });

  it('is not read to its end', async () => {
    const one = await begin('a', 0);
    const piece = `${(64 * 1024).toString(16)}\r\n${'x'.repeat(64 * 1024)}\r\n`;
    let sent = 0;
    while (one.status() === null && !one.socket.destroyed && sent < 3000 * MIB) {
      sent += 64 * 1024;
      if (one.socket.write(piece)) continue;
      await new Promise((done) => one.socket.once('drain', done).once('close', done));
    }
    // What lies in the buffers of the system was sent, but not read.
    expect(sent).toBeLessThan(300 * MIB);
  });
});

describe('what uploads leave behind', () => {
  it('is nothing when they were refused or deleted, and no more descriptors than one upload needs', async () => {
    const descriptors = () => readdirSync(`/proc/${road.pid}/fd`).length;
    await upload('a');
    const before = descriptors();
    for (let n = 0; n < 60; n++) {
      const response = await upload('a', n % 2 === 0 ? 'x'.repeat(MIB + 1) : 'x'.repeat(100_000));
      const { id } = (await response.json()) as { id?: string };
      expect(response.status).toBe(n % 2 === 0 ? 413 : 200);
      if (id === undefined) continue;
      const headers = { authorization: 'Bearer a' };
      expect((await fetch(`${road.url}/v1/files/${id}`, { method: 'DELETE', headers })).status).toBe(200);
    }
    expect(descriptors()).toBeLessThan(before + 20);
    expect(databases()).toHaveLength(1);
    const headers = { authorization: 'Bearer a' };
    const list = async (token: string) => {
      const response = await fetch(`${road.url}/v1/files`, { headers: { authorization: `Bearer ${token}` } });
      return ((await response.json()) as { data: { id: string }[] }).data;
    };
    for (const token of ['b', 'e', 'a']) {
      for (const { id } of await list(token)) {
        const own = { ...headers, authorization: `Bearer ${token}` };
        await fetch(`${road.url}/v1/files/${id}`, { method: 'DELETE', headers: own });
      }
    }
    await until(() => databases()[0]! < 100_000, 'the disk has its room back');
  });
});
