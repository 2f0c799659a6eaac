import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { FileJournal } from '../../src/host/node/journal/file.ts';
import { EXIT } from '../../src/process/index.ts';
import { JournalMember } from '../support/journal-member.ts';
import {
  dumpOf,
  healthOf,
  startMember,
  submitOn,
  unknownJobs,
  untilFollows,
  untilOwner,
} from '../support/journal-road.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import {
  chatJob,
  cli,
  readyWorker,
  setPace,
  settled,
  stateFolder,
  submit,
  tearDown,
  untilReady,
} from '../support/road.ts';

afterAll(tearDown);

function newJournal(): { folder: string; journal: string } {
  const folder = join(stateFolder(), 'journal');
  return { folder, journal: `file:${folder}` };
}

/** Returns the rows of files that follow the journal to its end. */
async function rowsByJournal(folder: string): Promise<unknown> {
  const member = await JournalMember.make(new FileJournal(folder));
  await member.follow();
  await member.end();
  const rows = member.dump();
  await member.remove();
  return rows;
}

function chat(url: string, max_tokens: number, more: object = {}): Promise<Response> {
  const messages = [{ role: 'user', content: 'hello' }];
  const body = JSON.stringify({ model: 'tiny', messages, max_tokens, ignore_eos: true, ...more });
  return fetch(`${url}/v1/chat/completions`, { method: 'POST', body });
}

describe('a follower', () => {
  afterEach(tearDown);

  it('takes over with every acknowledged job when the owner is killed', async () => {
    const { folder, journal } = newJournal();
    const one = await startMember(journal);
    await untilOwner(one);
    const two = await startMember(journal);
    await untilFollows(two);
    let isOver = false;
    const submitting = Promise.all(
      ['a', 'b', 'c', 'd'].map((name) =>
        submitOn(
          () => one.url,
          () => isOver,
          name,
        ),
      ),
    );
    await until(async () => (await healthOf(two)).entry > 50, 'the follower has many entries');
    one.process.kill('SIGKILL');
    isOver = true;
    const acknowledged = (await submitting).flat();
    // An entry may be of something else than a job.
    expect(acknowledged.length).toBeGreaterThan(20);
    await untilOwner(two);
    expect(await unknownJobs(two.url, acknowledged)).toEqual([]);
    // What was the owner follows, with files made from the journal.
    const three = await startMember(journal, one);
    await untilFollows(three);
    expect((await submit(two.url, chatJob(1, { id: 'later' }))).id).toBe('later');
    two.process.kill('SIGTERM');
    expect((await two.process.exited).code).toBe(EXIT.ok);
    await untilOwner(three);
    expect(await unknownJobs(three.url, [...acknowledged, 'later'])).toEqual([]);
    three.process.kill('SIGTERM');
    expect((await three.process.exited).code).toBe(EXIT.ok);
    expect(await rowsByJournal(folder)).toEqual(dumpOf(three));
  });

  it('has the same rows as the owner, of everything that a queue writes', async () => {
    const { folder, journal } = newJournal();
    const one = await startMember(journal);
    await untilOwner(one);
    const worker = await readyWorker(one.url, 'w', { engineArgs: '--inter-token-latency-ms 1' });
    const ids = await Promise.all(
      Array.from({ length: 10 }, async () => (await submit(one.url, chatJob(5))).id),
    );
    for (const id of ids) expect((await settled(one.url, id)).state).toBe('succeeded');
    const answered = await chat(one.url, 3);
    expect(answered.status).toBe(200);
    const stored = await fetch(`${one.url}/v1/responses`, {
      method: 'POST',
      body: JSON.stringify({ model: 'tiny', input: 'hello', max_output_tokens: 3, background: true }),
    });
    expect(stored.status).toBe(200);
    const large = { id: 'large', ...chatJob(1), payload: { messages: [], text: 'x'.repeat(400_000) } };
    await submit(one.url, large);
    await fetch(`${one.url}/api/jobs/large/cancel`, { method: 'POST' });
    worker.process.kill('SIGTERM');
    await worker.process.exited;
    one.process.kill('SIGTERM');
    await one.process.exited;
    const rows = dumpOf(one);
    expect(Object.keys(rows).length).toBeGreaterThan(3);
    expect(await rowsByJournal(folder)).toEqual(rows);
  });

  it('answers nothing but its health, and says who does', async () => {
    const { journal } = newJournal();
    const one = await startMember(journal);
    await untilOwner(one);
    const two = await startMember(journal);
    await until(async () => (await healthOf(two)).owner === one.url, 'the follower says who the owner is');
    const response = await fetch(`${two.url}/v1/models`);
    expect(response.status).toBe(503);
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    expect(error.code).toBe('not_owner');
    expect(error.message).toContain(`The owner is at ${one.url}.`);
    two.process.kill('SIGTERM');
    expect((await two.process.exited).code).toBe(EXIT.ok);
  });
});

// An unreachable journal is tried for 30 s: all that follows runs meanwhile.
describe.concurrent('an owner', () => {
  it('ends where the journal stays out of reach, and says so meanwhile', async () => {
    const address = `postgres://me:secret@127.0.0.1:${await freePort()}/queue`;
    const args = ['queue', '--port', '0', '--state', stateFolder(), '--journal', address];
    const [patient, ended] = [cli(args), cli(args)];
    await ended.waitForLine(/the journal cannot be reached; it is tried for 30 s/);
    ended.kill('SIGTERM');
    expect((await ended.exited).code).toBe(EXIT.ok);
    expect((await patient.exited).code).toBe(EXIT.journalUnreachable);
    expect(patient.output()).toContain('The journal cannot be reached: ');
    expect(patient.output()).not.toContain('secret');
  });

  it('that stood still while another one took over lets nothing leave, and ends', async () => {
    const { journal } = newJournal();
    const one = await startMember(journal);
    await untilOwner(one);
    const two = await startMember(journal);
    await untilFollows(two);
    await submit(one.url, chatJob(1, { id: 'before' }));
    one.process.kill('SIGSTOP');
    const late = fetch(`${one.url}/api/jobs`, {
      method: 'POST',
      body: JSON.stringify(chatJob(1, { id: 'late' })),
    }).then(
      ({ status }) => status,
      () => 0,
    );
    await untilOwner(two);
    one.process.kill('SIGCONT');
    expect(await late).not.toBe(201);
    expect((await one.process.exited).code).toBe(EXIT.replaced);
    expect(one.process.output()).toContain('another process has become the owner of the journal');
    expect(await unknownJobs(two.url, ['before', 'late'])).toEqual(['late']);
  });

  it('is refused where there is one, unless it follows', async () => {
    const { journal } = newJournal();
    const one = await startMember(journal, { follows: false });
    await untilOwner(one);
    const two = await startMember(journal, { follows: false });
    expect((await two.process.exited).code).toBe(EXIT.configuration);
    expect(two.process.output()).toContain(`The journal has an owner already, at http://`);
    expect((await submit(one.url, chatJob(1, { id: 'a' }))).id).toBe('a');
    // Killed, it starts again on its folder without a wait for its own lease.
    one.process.kill('SIGKILL');
    await one.process.exited;
    const again = await startMember(journal, { ...one, follows: false });
    await untilOwner(again);
    expect(await unknownJobs(again.url, ['a'])).toEqual([]);
  });

  it('is refused without its journal, until the folder follows none', async () => {
    const { journal } = newJournal();
    const one = await startMember(journal, { follows: false });
    await untilOwner(one);
    await submit(one.url, chatJob(1, { id: 'a' }));
    one.process.kill('SIGTERM');
    expect((await one.process.exited).code).toBe(EXIT.ok);
    const alone = () => cli(['queue', '--port', String(one.port), '--state', one.stateDir]);
    const refused = alone();
    expect((await refused.exited).code).toBe(EXIT.badState);
    expect(refused.output()).toContain('follows a journal, and this queue has none');
    // What is written without the journal would not be in it.
    rmSync(join(one.stateDir, 'journal-at.json'));
    await alone().waitForLine(/listening at/);
    expect(await unknownJobs(one.url, ['a'])).toEqual([]);
  });

  it('that does not reach the journal acknowledges nothing, says so, and goes on after that', async () => {
    const { folder, journal } = newJournal();
    const one = await startMember(journal, { follows: false });
    await untilOwner(one);
    const worker = await readyWorker(one.url, 'w', { engineArgs: '--inter-token-latency-ms 100' });
    const stream = await chat(one.url, 100, { stream: true });
    renameSync(folder, `${folder}.away`);
    const refused = await fetch(`${one.url}/api/jobs`, {
      method: 'POST',
      body: JSON.stringify(chatJob(1, { id: 'refused' })),
    });
    expect(refused.status).toBe(503);
    expect(await refused.json()).toMatchObject({ error: { code: 'journal_unreachable' } });
    renameSync(`${folder}.away`, folder);
    await until(async () => {
      const { status } = await fetch(`${one.url}/api/jobs`, {
        method: 'POST',
        body: JSON.stringify(chatJob(1, { id: 'taken' })),
      });
      return status === 201 || status === 200;
    }, 'jobs are taken again');
    await setPace(worker.engineUrl, 1);
    const text = await stream.text();
    expect(text.match(/"content":/g)!.length).toBeGreaterThanOrEqual(100);
    expect(text).toContain('data: [DONE]');
    // The worker's pauses between its dials have grown.
    await untilReady(one.url, 'w');
    expect((await settled(one.url, 'taken')).state).toBe('succeeded');
    worker.process.kill('SIGTERM');
  });
});

describe.concurrent('a queue is refused in words', () => {
  const refused = async (args: string[], env: NodeJS.ProcessEnv = {}) => {
    const process = cli([...args, '--port', '0', '--state', stateFolder()], env);
    expect((await process.exited).code).toBe(EXIT.configuration);
    expect(process.output()).not.toMatch(/ at .*:\d+:\d+/);
    return process.output();
  };

  it('where the address of the journal is none', async () => {
    expect(await refused(['queue', '--journal', 'mysql://a/b'])).toContain('begins with none of');
  });

  it('where there is nothing to follow', async () => {
    expect(await refused(['queue', '--follow'])).toContain('name the journal');
  });

  it('where it would have to wait for its turn and starts with its workers', async () => {
    const { journal } = newJournal();
    const env = { QUEUE_JOURNAL: journal, QUEUE_FOLLOW: 'true', ENGINE: 'simulator', VLLM_MODEL: 'tiny' };
    expect(await refused(['up'], env)).toContain('cannot follow a journal');
  });

  it('where its port is taken', async () => {
    const { journal } = newJournal();
    const one = await startMember(journal);
    await untilOwner(one);
    const two = await startMember(journal, { port: one.port });
    expect((await two.process.exited).code).toBe(EXIT.portInUse);
    expect(two.process.output()).toContain(`Port ${one.port}`);
  });
});

describe.concurrent('gateway processes', () => {
  it('pass a stream on while the owner changes, and turn to the next one', async () => {
    const { journal } = newJournal();
    const one = await startMember(journal);
    await untilOwner(one);
    const two = await startMember(journal);
    await untilFollows(two);
    const port = await freePort();
    const gateway = cli(['gateway', '--queue', `${one.url},${two.url}`, '--port', String(port)]);
    await gateway.waitForLine(/listening at/);
    const url = `http://127.0.0.1:${port}`;
    const worker = await readyWorker(url, 'w', { engineArgs: '--inter-token-latency-ms 100' });
    const stream = await chat(url, 100, { stream: true });
    one.process.kill('SIGKILL');
    const later = await chat(url, 3, { stream: true });
    expect(await later.text()).toContain('data: [DONE]');
    await setPace(worker.engineUrl, 1);
    const text = await stream.text();
    expect(text.match(/"content":/g)!.length).toBeGreaterThanOrEqual(100);
    expect(text).toContain('data: [DONE]');
    await two.process.waitForLine(/this process is the owner of the journal/);
  });
});
