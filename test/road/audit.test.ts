import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import type { AuditEntry } from '../../src/protocol/index.ts';
import { readTokenFile } from '../../src/state/tokens.ts';
import { callsOf, job, PROMPT, ROOT } from '../support/audit-road.ts';
import { until } from '../support/poll.ts';
import { stopAllProcesses } from '../support/processes.ts';
import { closeRawWorkers, type JobFrame, RawWorker } from '../support/raw-worker.ts';
import { cli, isDeployed, startQueue, stateFolder, tearDown } from '../support/road.ts';

/** What people did to a queue, as its audit tells it afterwards. */
afterEach(async () => {
  closeRawWorkers();
  await stopAllProcesses();
});
afterAll(tearDown);

const LONG = { timeout: 240_000 };

const short = ({ action, target, outcome }: AuditEntry) => `${action} ${target} ${outcome}`;

/** Fails the nth job that the worker is given, for good. */
async function fail(worker: RawWorker, nth: number): Promise<void> {
  worker.send({ type: 'resume' });
  const { job_id, fence_token }: JobFrame = await worker.job(nth);
  worker.send({ type: 'pause' });
  worker.send({ type: 'job_error', job_id, fence_token, error: 'no such thing', code: 'engine_refused' });
}

describe('the audit', () => {
  it('tells each thing that was done, by whom, and how it ended', LONG, async () => {
    const queue = await startQueue({ env: ROOT });
    const { call, audit } = callsOf(queue);
    const { body: made } = await call('POST', '/api/tokens', { name: 'team-a', scopes: ['submit'] });
    const old = callsOf(queue, String(made.token));
    expect((await old.call('GET', '/api/audit')).status).toBe(403);
    const { body: turned } = await call('POST', '/api/tokens/team-a/rotate');
    const team = callsOf(queue, String(turned.token));
    expect((await call('POST', '/api/tokens', { name: 'team-a', scopes: ['read'] })).status).toBe(409);

    const limits = { requests_per_minute: 600 };
    expect((await call('PATCH', '/api/tokens/team-a', { limits })).status).toBe(200);

    const worker = await (await new RawWorker(queue.url, 'root-secret').connect()).register('w');
    worker.send({ type: 'pause' });
    // What is one's own is nobody else's business.
    await call('POST', '/api/jobs', job('mine'));
    expect((await call('DELETE', '/api/jobs/mine')).status).toBe(200);
    await team.call('POST', '/api/jobs', job('theirs'));
    expect((await team.call('DELETE', '/api/jobs/theirs')).status).toBe(200);
    // Of another tenant.
    await team.call('POST', '/api/jobs', job('cancelled'));
    expect((await call('DELETE', '/api/jobs/cancelled')).status).toBe(200);
    expect((await call('POST', '/api/jobs/cancelled/retry')).status).toBe(409);
    await team.call('POST', '/api/jobs', job('failed'));
    await fail(worker, 0);
    await until(async () => (await call('GET', '/api/jobs/failed')).body.state === 'failed', 'it failed');
    expect((await call('POST', '/api/jobs/failed/retry')).status).toBe(200);
    await call('DELETE', '/api/jobs/failed');
    await team.call('POST', '/api/jobs', job('by-socket'));
    const socket = new WebSocket(`${queue.url.replace('http', 'ws')}/api/jobs/socket`, {
      headers: { authorization: 'Bearer root-secret' },
    });
    await new Promise((done) => socket.once('open', done));
    socket.send(JSON.stringify({ type: 'cancel', ids: ['by-socket', 'of-nobody'] }));
    const isCancelled = async () => (await call('GET', '/api/jobs/by-socket')).body.state === 'cancelled';
    await until(isCancelled, 'the socket has cancelled it');
    socket.terminate();

    const run = async () =>
      String((await team.call('POST', '/v2/cfg/run', { input: { prompt: PROMPT } })).body.id);
    const [first, second] = [await run(), await run()];
    expect((await call('POST', `/v2/cfg/cancel/${first}`)).status).toBe(200);
    await fail(worker, 1);
    await until(
      async () => (await call('GET', `/v2/cfg/status/${second}`)).body.status === 'FAILED',
      'it failed',
    );
    expect((await call('POST', `/v2/cfg/retry/${second}`)).status).toBe(200);
    expect((await call('POST', '/v2/cfg/purge-queue')).body).toMatchObject({ removed: 1 });

    const form = new FormData();
    const line = { custom_id: '1', method: 'POST', url: '/v1/chat/completions', body: job('').payload };
    form.set('purpose', 'batch');
    form.set('file', new File([JSON.stringify(line)], 'lines.jsonl'));
    const file = String((await team.call('POST', '/v1/files', form)).body.id);
    const asked = { input_file_id: file, endpoint: '/v1/chat/completions', completion_window: '24h' };
    const batch = String((await team.call('POST', '/v1/batches', asked)).body.id);
    expect((await call('POST', `/v1/batches/${batch}/cancel`)).status).toBe(200);
    const over = async () => (await call('GET', `/v1/batches/${batch}`)).body.status === 'cancelled';
    await until(over, 'the batch is cancelled');
    expect((await call('DELETE', `/v1/files/${file}`)).status).toBe(200);

    const pools = { chat: { model: 'tiny', max: 2, machines: [{ provider: 'cloud', price_per_hour: 1 }] } };
    const spec = { providers: { cloud: { driver: 'runpod' } }, pools };
    await call('POST', '/api/fleet/spec', { spec, dry_run: true });
    expect((await call('POST', '/api/fleet/spec', { spec })).status).toBe(200);
    for (const action of ['pause', 'launch', 'resume', 'launch', 'drain'])
      await call('POST', `/api/fleet/pools/chat/${action}`, {});
    await call('POST', '/api/fleet/pools/chat/roll', { action: 'anew' });
    await call('POST', '/api/fleet/pools/chat/roll', { action: 'to', version: 'none' });
    await call('POST', '/api/fleet/pools/chat/roll', { action: 'anew', dry_run: true });
    expect((await call('DELETE', '/api/fleet/spec')).status).toBe(200);
    expect((await call('POST', '/api/fleet/pools/chat/pause', {})).status).toBe(404);
    expect((await call('DELETE', '/api/tokens/team-a')).status).toBe(200);
    // Perhaps the token itself: no such target is recorded.
    expect((await call('DELETE', `/api/tokens/${String(made.token)}`)).status).toBe(404);

    const entries = (await audit()).reverse();
    expect(entries.map(short)).toEqual([
      'token.create QUEUE_TOKENS 1 done',
      'token.create team-a done',
      'token.rotate team-a done',
      'token.create team-a refused',
      'token.change team-a done',
      'job.cancel cancelled done',
      'job.retry cancelled refused',
      'job.retry failed done',
      'job.cancel failed done',
      'job.cancel by-socket done',
      `job.cancel ${first} done`,
      `job.retry ${second} done`,
      'queue.purge cfg done',
      `batch.cancel ${batch} done`,
      `file.delete ${file} done`,
      'fleet.apply vllm-queue done',
      'pool.pause chat done',
      'pool.launch chat refused',
      'pool.resume chat done',
      'pool.launch chat done',
      'pool.drain chat done',
      'pool.roll chat done',
      'pool.roll chat refused',
      'fleet.remove vllm-queue done',
      'token.revoke team-a done',
    ]);
    expect(entries.slice(1).every(({ actor }) => actor === 'QUEUE_TOKENS 1')).toBe(true);
    const of = (text: string) => entries.find((entry) => short(entry).startsWith(text));
    expect(of('job.cancel cancelled')).toMatchObject({
      before: { tenant: 'team-a', config_id: 'cfg', state: 'pending' },
      after: { state: 'cancelled' },
      route: 'DELETE /api/jobs/cancelled',
    });
    expect(of('token.revoke')).toMatchObject({ before: { name: 'team-a', scopes: ['submit'] }, after: null });
    expect(of('token.create team-a refused')).toMatchObject({ error: 'token_exists' });
    expect(of('queue.purge')).toMatchObject({ before: { jobs_of: 'all tenants' }, after: { cancelled: 1 } });
    expect(of('file.delete')).toMatchObject({ before: { tenant: 'team-a', filename: 'lines.jsonl' } });
    expect(of('fleet.apply')).toMatchObject({
      before: null,
      after: {
        pools: { chat: { model: 'tiny', max: 2 } },
        changes: ['pool chat is new: 0 to 2 workers of tiny', expect.any(String)],
      },
    });
    expect(of('pool.pause')).toMatchObject({
      before: { control: 'automatic' },
      after: { control: 'paused' },
    });
    expect(of('pool.roll')).toMatchObject({ after: { action: 'anew', wanted: expect.any(String) } });
    expect(of('fleet.remove')).toMatchObject({ before: { pools: { chat: { min: 0, max: 2 } } } });

    const lines = await fetch(`${queue.url}/api/audit`, {
      headers: { authorization: 'Bearer root-secret', accept: 'application/x-ndjson' },
    });
    const text = await lines.text();
    expect(lines.headers.get('content-type')).toBe('application/x-ndjson');
    expect(
      text
        .trim()
        .split('\n')
        .map((one) => JSON.parse(one)),
    ).toEqual(entries.reverse());
    for (const secret of [PROMPT, 'root-secret', String(made.token), String(turned.token), 'sha256'])
      expect(text).not.toContain(secret);
  });

  it.skipIf(isDeployed)(
    'tells what became of the tokens of a file, also while nothing ran',
    LONG,
    async () => {
      const stateDir = stateFolder();
      const create = async (name: string, scope: string) => {
        const made = cli(['token', 'create', '--state', stateDir, '--scope', scope, '--name', name]);
        expect(await made.exited).toMatchObject({ code: 0 });
        return /wv_[\w-]+/.exec(made.output())![0];
      };
      const admin = await create('operator', 'admin');
      const queue = await startQueue({ stateDir });
      const { audit } = callsOf(queue, admin);
      const news = async () => (await audit()).map(short).reverse();
      expect(await news()).toEqual(['token.create operator done']);
      await create('team-b', 'submit');
      await until(async () => (await news()).at(-1) === 'token.create team-b done', 'the new one is told');
      await queue.process.kill('SIGTERM');
      await queue.process.exited;
      const left = (await readTokenFile(stateDir)).filter(({ name }) => name === 'operator');
      writeFileSync(join(stateDir, 'tokens.json'), JSON.stringify(left));
      await startQueue({ stateDir, port: queue.port });
      expect(await news()).toEqual([
        'token.create operator done',
        'token.create team-b done',
        'token.revoke team-b done',
      ]);
      expect((await audit())[0]).toMatchObject({
        actor: null,
        route: 'token file',
        before: [{ name: 'team-b' }],
      });
    },
  );
});
