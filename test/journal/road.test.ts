import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import {
  dumpOf,
  healthOf,
  type JournalProcess,
  startMember,
  submitOn,
  unknownJobs,
  untilFollows,
  untilOwner,
} from '../support/journal-road.ts';
import { MovingAddress } from '../support/moving-address.ts';
import { until } from '../support/poll.ts';
import { PostgresServer } from '../support/postgres-server.ts';
import { chatJob, readyWorker, settled, submit, tearDown } from '../support/road.ts';
import { S3Store } from '../support/s3-store.ts';

const removals: (() => Promise<void>)[] = [];

afterEach(async () => {
  await tearDown();
  for (const remove of removals.splice(0).reverse()) await remove();
});

async function startPostgres(): Promise<PostgresServer> {
  const server = await PostgresServer.make();
  removals.push(() => server.remove());
  return server;
}

/** Starts a primary and its standby, and an address that leads to the primary. */
async function startPair(): Promise<{
  primary: PostgresServer;
  standby: PostgresServer;
  address: MovingAddress;
}> {
  const primary = await startPostgres();
  const standby = await primary.makeStandby('second');
  removals.push(() => standby.remove());
  const address = await MovingAddress.to(primary.port);
  removals.push(() => address.close());
  return { primary, standby, address };
}

/** Stops a standby, which lacks the entries from then on, though not the tables: it was copied before those were made. */
async function stopBehind(standby: PostgresServer): Promise<void> {
  await until(() => standby.sql('SELECT count(*) FROM worker_vllm.journal'), 'the standby has the tables');
  await standby.stop();
}

/** Starts an owner and a process that follows it. */
async function startBoth(
  journal: string,
  env: NodeJS.ProcessEnv = {},
): Promise<[JournalProcess, JournalProcess]> {
  const owner = await startMember(journal, { env });
  await untilOwner(owner);
  const follower = await startMember(journal, { env });
  await untilFollows(follower);
  return [owner, follower];
}

/** Submits jobs in four lanes until it is told to stop. @returns a function that does, and returns what was acknowledged */
function submitting(url: () => string, name: string): () => Promise<string[]> {
  let isOver = false;
  const lanes = ['a', 'b', 'c', 'd'].map((lane) => submitOn(url, () => isOver, `${name}-${lane}`));
  return async () => {
    isOver = true;
    return (await Promise.all(lanes)).flat();
  };
}

async function untilEntries(member: JournalProcess, more: number): Promise<void> {
  const { entry } = await healthOf(member);
  await untilFollows(member, entry + more);
}

async function takesJobs(url: string): Promise<boolean> {
  const response = await fetch(`${url}/api/jobs`, { method: 'POST', body: JSON.stringify(chatJob(1)) });
  return response.status === 201;
}

describe('a follower takes over with every acknowledged job', () => {
  it('from PostgreSQL', async () => {
    const server = await startPostgres();
    await takeOver(server.address);
  });

  it('from an object store', async () => {
    const store = await S3Store.make('SeaweedFS');
    removals.push(() => store.remove());
    await takeOver(store.address('road'), store.env);
  });

  async function takeOver(journal: string, env: NodeJS.ProcessEnv = {}): Promise<void> {
    const [one, two] = await startBoth(journal, env);
    const stop = submitting(() => one.url, 'killed');
    await untilEntries(two, 50);
    one.process.kill('SIGKILL');
    const acknowledged = await stop();
    await untilOwner(two);
    expect(acknowledged.length).toBeGreaterThan(20);
    expect(await unknownJobs(two.url, acknowledged)).toEqual([]);
    const three = await startMember(journal, { ...one, env });
    await untilFollows(three);
    two.process.kill('SIGTERM');
    expect((await two.process.exited).code).toBe(EXIT.ok);
    await untilOwner(three);
    expect(await unknownJobs(three.url, acknowledged)).toEqual([]);
    three.process.kill('SIGTERM');
    await three.process.exited;
    // A process with no files of its own makes them from the journal.
    const four = await startMember(journal, { env });
    await untilOwner(four);
    four.process.kill('SIGTERM');
    await four.process.exited;
    expect(dumpOf(four)).toEqual(dumpOf(three));
  }
});

describe('PostgreSQL', () => {
  it('is restarted after a crash: nothing is lost, streams go on, jobs are taken again', async () => {
    const server = await startPostgres();
    const [one, two] = await startBoth(server.address);
    const worker = await readyWorker(one.url, 'w', { engineArgs: '--inter-token-latency-ms 100' });
    const stop = submitting(() => one.url, 'restarted');
    await untilEntries(two, 20);
    const stream = await fetch(`${one.url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({
        model: 'tiny',
        messages: [{ role: 'user', content: 'hello' }],
        max_tokens: 150,
        ignore_eos: true,
        stream: true,
      }),
    });
    await server.kill();
    await one.process.waitForLine(/the journal cannot be reached/);
    expect(await takesJobs(one.url)).toBe(false);
    await server.start();
    await one.process.waitForLine(/the journal can be reached again/);
    await until(() => takesJobs(one.url), 'jobs are taken again');
    const acknowledged = await stop();
    const text = await stream.text();
    expect(text.match(/"content":/g)!.length).toBeGreaterThanOrEqual(150);
    expect(text).toContain('data: [DONE]');
    const later = (await submit(one.url, chatJob(1))).id;
    expect((await settled(one.url, later)).state).toBe('succeeded');
    worker.process.kill('SIGTERM');
    one.process.kill('SIGKILL');
    await untilOwner(two);
    expect(await unknownJobs(two.url, [...acknowledged, later])).toEqual([]);
  });

  it('hangs for seconds: nobody takes over meanwhile, or exactly one does', async () => {
    const server = await startPostgres();
    const members = await startBoth(server.address);
    const stop = submitting(() => members[0].url, 'hung');
    await untilEntries(members[1], 20);
    for (const ms of [1500, 6000]) {
      await server.pause('SIGSTOP');
      await sleep(ms);
      await server.pause('SIGCONT');
      await sleep(1000);
    }
    const acknowledged = await stop();
    const owner = await until(async () => {
      for (const member of members) if (await takesJobs(member.url).catch(() => false)) return member;
      return null;
    }, 'one of them takes jobs');
    const other = members.find((member) => member !== owner)!;
    // The other one may take over even now; then the first one takes none any more.
    const hasTakenOver = await takesJobs(other.url).catch(() => false);
    const [now, before] = hasTakenOver ? [other, owner] : [owner, other];
    expect(await takesJobs(before.url).catch(() => false)).toBe(false);
    expect(await unknownJobs(now.url, acknowledged)).toEqual([]);
  });

  it('fails over to a synchronous standby: nothing is lost, and the owner goes on', async () => {
    const { primary, standby, address } = await startPair();
    await primary.set(["synchronous_standby_names = 'second'"]);
    await primary.sql('SELECT pg_reload_conf()');
    const [one, two] = await startBoth(`postgres://postgres@127.0.0.1:${address.port}/postgres`);
    const stop = submitting(() => one.url, 'failed-over');
    await untilEntries(two, 50);
    await primary.kill();
    await standby.promote();
    address.moveTo(standby.port);
    await until(() => takesJobs(one.url), 'jobs are taken again');
    const acknowledged = await stop();
    one.process.kill('SIGKILL');
    await untilOwner(two);
    expect(await unknownJobs(two.url, acknowledged)).toEqual([]);
  });

  it('fails over to an asynchronous standby that lacks entries: the owner appends them again', async () => {
    const { primary, standby, address } = await startPair();
    const [one, two] = await startBoth(`postgres://postgres@127.0.0.1:${address.port}/postgres`);
    await submit(one.url, chatJob(1, { id: 'before' }));
    await stopBehind(standby);
    const stop = submitting(() => one.url, 'lacking');
    await untilEntries(two, 50);
    await primary.kill();
    await standby.start();
    await standby.promote();
    address.moveTo(standby.port);
    await one.process.waitForLine(/the journal had lost entries/);
    await until(() => takesJobs(one.url), 'jobs are taken again');
    const acknowledged = await stop();
    one.process.kill('SIGKILL');
    await untilOwner(two);
    expect(acknowledged.length).toBeGreaterThan(20);
    expect(await unknownJobs(two.url, ['before', ...acknowledged])).toEqual([]);
  });

  it('fails over to a standby that lacks entries, and the owner is gone too: the follower appends them again', async () => {
    const { primary, standby, address } = await startPair();
    const [one, two] = await startBoth(`postgres://postgres@127.0.0.1:${address.port}/postgres`);
    await stopBehind(standby);
    const stop = submitting(() => one.url, 'lacking');
    await untilEntries(two, 50);
    const acknowledged = await stop();
    await untilFollows(two, Number(await primary.sql('SELECT max(seq) FROM worker_vllm.journal')));
    one.process.kill('SIGKILL');
    await primary.kill();
    await standby.start();
    await standby.promote();
    address.moveTo(standby.port);
    await untilOwner(two);
    await two.process.waitForLine(/the journal had lost entries/);
    expect(acknowledged.length).toBeGreaterThan(20);
    expect(await unknownJobs(two.url, acknowledged)).toEqual([]);
  });
});
