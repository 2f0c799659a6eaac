import { copyFileSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import WebSocket from 'ws';
import { readTokenFile } from '../../src/state/tokens.ts';
import { until } from '../support/poll.ts';
import { closeRawWorkers, RawWorker } from '../support/raw-worker.ts';
import { cli, startQueue, tearDown } from '../support/road.ts';

/** Tokens that are made and taken away while a queue runs. */
afterAll(async () => {
  closeRawWorkers();
  await tearDown();
});

async function makeToken(stateDir: string, scope: string): Promise<string> {
  const made = cli(['token', 'create', '--state', stateDir, '--scope', scope, '--name', scope]);
  expect(await made.exited).toMatchObject({ code: 0 });
  return /wv_[\w-]+/.exec(made.output())![0];
}

const statusOf = async (url: string, token: string) =>
  (await fetch(`${url}/api/workers`, { headers: { authorization: `Bearer ${token}` } })).status;

it('a token is good as soon as it is made, and no more once it is taken out of the file', async () => {
  const stateDir = mkdtempSync(join(tmpdir(), 'tokens-'));
  const [reader, worker] = [await makeToken(stateDir, 'read'), await makeToken(stateDir, 'worker')];
  const { url } = await startQueue({ stateDir, env: { QUEUE_TOKENS: 'read:from-the-environment' } });
  const admin = await makeToken(stateDir, 'admin');
  await until(async () => (await statusOf(url, admin)) === 200, 'the new token is good');
  expect(await statusOf(url, reader)).toBe(200);

  const played = await (await new RawWorker(url, worker).connect()).register('w');
  const headers = { authorization: `Bearer ${reader}` };
  const viewer = new WebSocket(`${url.replace('http', 'ws')}/api/fleet/live`, { headers });
  let isClosed = false;
  viewer.on('close', () => {
    isClosed = true;
  });
  await new Promise((done) => viewer.once('open', done));
  const left = (await readTokenFile(stateDir)).filter(({ name }) => name === 'admin');
  writeFileSync(join(stateDir, 'tokens.json'), JSON.stringify(left));
  await until(async () => (await statusOf(url, reader)) === 401, 'the token is no more');
  await until(() => isClosed && played.closed !== null, 'what was opened with such tokens is closed');
  expect(await statusOf(url, admin)).toBe(200);

  // What cannot be read changes nothing; where none is left, nobody is admitted.
  writeFileSync(join(stateDir, 'tokens.json'), '[{]');
  writeFileSync(join(stateDir, 'tokens.json'), '[]');
  await until(async () => (await statusOf(url, admin)) === 401, 'the last token of the file is no more');
  expect(await statusOf(url, 'from-the-environment')).toBe(200);
  expect((await fetch(`${url}/api/workers`)).status).toBe(401);
});

it('a copy of the file lets the same tokens in at a queue on an empty folder, as docs/upgrading.md has it', async () => {
  const [before, after] = [mkdtempSync(join(tmpdir(), 'tokens-')), mkdtempSync(join(tmpdir(), 'tokens-'))];
  const reader = await makeToken(before, 'read');
  const old = await startQueue({ stateDir: before });
  copyFileSync(join(before, 'tokens.json'), join(after, 'tokens.json'));
  const next = await startQueue({ stateDir: after });
  for (const { url } of [old, next]) expect(await statusOf(url, reader)).toBe(200);
});

it('a list of the folder tells when each token was last used, while a queue runs on it and before', async () => {
  const stateDir = mkdtempSync(join(tmpdir(), 'tokens-'));
  const reader = await makeToken(stateDir, 'read');
  const admin = await makeToken(stateDir, 'admin');
  const listed = async (...place: string[]) => {
    const list = cli(['token', 'list', ...place]);
    expect(await list.exited).toMatchObject({ code: 0 });
    return list.output();
  };
  expect(await listed('--state', stateDir)).toMatch(/LAST USED\nread .* never$/m);
  const { url } = await startQueue({ stateDir });
  expect(await statusOf(url, reader)).toBe(200);
  // The queue notes a use at once or with the next, a minute later; a list of its own has them all noted.
  const used = /^read .* 20\d\d-[\d-]+ [\d:]+$/m;
  expect(await listed('--url', url, '--token', admin)).toMatch(used);
  expect(await listed('--state', stateDir)).toMatch(used);
  const unknown = cli(['token', 'show', 'nobody', '--state', stateDir]);
  expect(await unknown.exited).toMatchObject({ code: 2 });
  expect(unknown.output()).toContain('"worker-vllm token list" shows');
});

it('what a token may do is changed while a queue runs, and its secret stays', async () => {
  const stateDir = mkdtempSync(join(tmpdir(), 'tokens-'));
  const [caller, admin] = [await makeToken(stateDir, 'submit'), await makeToken(stateDir, 'admin')];
  const { url } = await startQueue({ stateDir });
  const set = async (...options: string[]) => {
    const command = cli(['token', 'set', 'submit', '--state', stateDir, ...options]);
    const { code } = await command.exited;
    return { code, output: command.output() };
  };
  const told = async () =>
    (await fetch(`${url}/api/tokens/submit`, { headers: { authorization: `Bearer ${admin}` } })).json();
  const ask = async () => {
    const body = '{"model":"llama","prompt":""}';
    const headers = { authorization: `Bearer ${caller}`, 'content-type': 'application/json' };
    return (await fetch(`${url}/v1/completions`, { method: 'POST', headers, body })).status;
  };
  const changed = await set('--models', 'qwen-*', '--expires', '2199-01-31', '--requests-per-minute', '7');
  expect(changed).toMatchObject({ code: 0, output: expect.stringContaining('models: qwen-*') });
  await until(async () => (await ask()) === 403, 'another model is refused');
  expect(await told()).toMatchObject({
    models: ['qwen-*'],
    limits: { requests_per_minute: 7 },
    expires_at: '2199-01-31T00:00:00.000Z',
  });
  expect(await set('--models', 'none', '--expires', 'none')).toMatchObject({ code: 0 });
  await until(async () => (await ask()) !== 403, 'all models may be asked for');
  expect(await told()).toMatchObject({ models: null, expires_at: null, limits: { requests_per_minute: 7 } });
  expect(await set('--expires', 'yesterday')).toMatchObject({
    code: 2,
    output: expect.stringContaining('expected a time to come'),
  });
});

it('what a revoked token has stored goes on, or is cancelled with it', async () => {
  const stateDir = mkdtempSync(join(tmpdir(), 'tokens-'));
  const admin = await makeToken(stateDir, 'admin');
  const { url } = await startQueue({ stateDir });
  const token = async (...args: string[]) => {
    const command = cli(['token', ...args, '--url', url, '--token', admin]);
    const { code } = await command.exited;
    return { code, output: command.output() };
  };
  const ask = (path: string, secret: string, body?: object) =>
    fetch(`${url}${path}`, {
      headers: { authorization: `Bearer ${secret}` },
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
    });
  const stateOf = async (id: string) =>
    ((await (await ask(`/api/jobs/${id}`, admin)).json()) as { state: string }).state;
  const payload = { messages: [] };
  for (const name of ['goes-on', 'ends', 'shares', 'shared']) {
    const tenant = name.startsWith('share') ? ['--tenant', 'team'] : [];
    const made = await token('create', '--scope', 'submit', '--name', name, ...tenant);
    const secret = /wv_[\w-]+/.exec(made.output)![0];
    const job = { id: name, job_type: 'chat_completion', config_id: 'cfg', payload };
    expect((await ask('/api/jobs', secret, job)).status).toBe(201);
  }
  const left = await token('revoke', 'goes-on');
  expect(left).toMatchObject({ code: 0, output: expect.stringContaining('What it has stored goes on') });
  expect(await stateOf('goes-on')).toBe('pending');
  const ended = await token('revoke', 'ends', '--cancel');
  expect(ended).toMatchObject({ code: 0, output: expect.stringContaining('1 of its jobs were cancelled') });
  expect(await stateOf('ends')).toBe('cancelled');
  const refused = await token('revoke', 'shared', '--cancel');
  expect(refused).toMatchObject({ code: 2, output: expect.stringContaining('Nothing was revoked') });
  expect([await stateOf('shared'), await stateOf('shares')]).toEqual(['pending', 'pending']);
});
