import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/worker/clock.ts';
import { metadataAt } from '../../../src/worker/notices/metadata.ts';
import { NoticeWatch } from '../../../src/worker/notices/watch.ts';
import { MetadataService } from '../../support/metadata-service.ts';
import { until } from '../../support/poll.ts';

/** The watch over services that answer as those of the clouds do. */
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** Looks come sooner than in a worker, where AWS is asked every 5 s. */
const FAST = {
  ...systemClock,
  setTimeout: (run: () => void, ms: number) => systemClock.setTimeout(run, ms / 20),
};

/** A watch with what it drained and said. */
function watching(base: string, file: string | null = null, clock = FAST, ask = metadataAt(base)) {
  const graces: number[] = [];
  const said: string[] = [];
  const say = (_: object, message: string) => void said.push(message);
  const watch = new NoticeWatch({
    clock,
    log: { debug: () => {}, info: say, warn: say, error: say },
    ask,
    file,
    graceMs: 5000,
    drain: (graceMs) => void graces.push(graceMs),
  });
  watch.start();
  closers.push(() => watch.stop());
  return { watch, graces, said };
}

async function service(kind: MetadataService['kind']): Promise<MetadataService> {
  const made = await MetadataService.start(kind);
  closers.push(() => made.close());
  return made;
}

describe('the watch for notices', () => {
  it.each(['aws', 'google', 'azure'] as const)('drains by the time of a notice of %s, once', async (kind) => {
    const cloud = await service(kind);
    const { graces, said } = watching(cloud.url);
    await until(() => said.some((text) => /this is a machine of/.test(text)), 'the cloud is known');
    expect(graces).toEqual([]);
    cloud.giveNotice(30);
    await until(() => graces.length > 0, 'it drains');
    expect(graces[0]).toBeGreaterThan(10_000);
    expect(graces[0]).toBeLessThanOrEqual(27_500);
    cloud.takeBack();
    expect(said.filter((text) => /taken away, says/.test(text))).toHaveLength(1);
  });

  it('knows its cloud though its metadata service answers only after a while', async () => {
    const cloud = await service('google');
    const ask = metadataAt(cloud.url);
    let asked = 0;
    const later: typeof ask = (question, signal) => {
      asked += 1;
      return asked <= 3 ? Promise.reject(new Error('connection refused')) : ask(question, signal);
    };
    const { graces } = watching(cloud.url, null, FAST, later);
    cloud.giveNotice(30);
    await until(() => graces.length > 0, 'it drains');
  });

  it('asks AWS for a new token where the one before is not good any more', async () => {
    const cloud = await service('aws');
    const { graces, said } = watching(cloud.url);
    await until(() => said.some((text) => /this is a machine of/.test(text)), 'the cloud is known');
    cloud.forgetTokens();
    cloud.giveNotice(120);
    await until(() => graces.length > 0, 'it drains');
  });

  it('only says it when AWS recommends to rebalance', async () => {
    const cloud = await service('aws');
    cloud.recommend();
    const { graces, said } = watching(cloud.url);
    await until(() => said.some((text) => /may take this machine away/.test(text)), 'it is said');
    expect(graces).toEqual([]);
  });

  it('sees a notice that is there when it starts', async () => {
    const cloud = await service('google');
    cloud.giveNotice(30);
    const { graces } = watching(cloud.url);
    await until(() => graces.length > 0, 'it drains');
  });

  it('tells Azure that the machine may go once the worker has ended', async () => {
    const cloud = await service('azure');
    const { watch, graces } = watching(cloud.url, null, systemClock);
    cloud.giveNotice(30);
    await until(() => graces.length > 0, 'it drains');
    expect(cloud.started).toEqual([]);
    await watch.stop();
    expect(cloud.started).toEqual(['e1']);
  });

  it('does nothing and says nothing on a machine of no cloud', async () => {
    const requests: string[] = [];
    const server = createServer((request: IncomingMessage, response: ServerResponse) => {
      requests.push(request.url!);
      response.writeHead(200).end('<html>');
    });
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    closers.push(() => server.close());
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const { graces, said } = watching(url);
    await until(() => requests.length >= 3, 'each cloud is asked for');
    expect(watching('http://127.0.0.1:1').said).toEqual([]);
    expect({ graces, said }).toEqual({ graces: [], said: [] });
  });

  it('drains when the file appears, by what is in it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'notice-'));
    closers.push(() => rmSync(folder, { recursive: true }));
    const [timed, empty] = [join(folder, 'timed'), join(folder, 'empty')];
    const [one, other] = [watching('http://127.0.0.1:1', timed), watching('http://127.0.0.1:1', empty)];
    writeFileSync(timed, '120');
    writeFileSync(empty, '');
    await until(() => one.graces.length > 0 && other.graces.length > 0, 'both drain');
    expect(one.graces[0]).toBeGreaterThan(60_000);
    expect(other.graces).toEqual([5000]);
  });
});
