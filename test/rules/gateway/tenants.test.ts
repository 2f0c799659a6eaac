import { describe, expect, it } from 'vitest';
import { FEATURE_ROUTES } from '../../../src/features/index.ts';
import { createApp } from '../../../src/gateway/app.ts';
import type { GatewayEnv } from '../../../src/gateway/env.ts';
import type { WorkerDial } from '../../../src/queue/rpc.ts';
import { acceptNothing, playedObjects } from '../../support/objects.ts';
import { tokenEntry } from '../../support/token-entry.ts';

const TOKENS = JSON.stringify([
  tokenEntry('app', ['submit']),
  tokenEntry('team-app', ['submit'], { tenant: 'team' }),
  tokenEntry('operator', ['admin']),
  tokenEntry('dashboard', ['read']),
  tokenEntry('bound', ['worker'], { name: 'Größe', worker_id: 'runpod-*' }),
]);

/** What the queue's object is asked, as verb and arguments. */
function recording() {
  const asked: unknown[][] = [];
  const dialled: WorkerDial[] = [];
  const verbs = ['get', 'wait', 'cancel', 'ledger', 'ownerOf'].map((verb) => [
    verb,
    async (...given: unknown[]) => {
      asked.push([verb, ...given]);
      return null;
    },
  ]);
  const object = {
    ...Object.fromEntries(verbs),
    hasSession: async () => true,
    heartbeat: async () => {},
    connect: async (dial: WorkerDial) => {
      dialled.push(dial);
      return new Response(null);
    },
  };
  const objects = playedObjects({ queue: () => object, fleet: () => object });
  const env: GatewayEnv = { objects, acceptUpgrade: acceptNothing, TOKENS };
  const ask = async (who: string, method: string, path: string, more: RequestInit = {}) => {
    const headers = { authorization: `Bearer ${who}`, ...more.headers };
    return await createApp(FEATURE_ROUTES).fetch(
      new Request(`https://queue.example${path}`, { ...more, method, headers }),
      env,
    );
  };
  return { ask, asked, dialled, env };
}

describe('a job', () => {
  it.each([
    ['app', 'app'],
    ['team-app', 'team'],
    ['operator', null],
  ])('is asked for by the token %s as the viewer %j', async (who, viewer) => {
    const { ask, asked } = recording();
    const paths = [
      ['GET', '/api/jobs/j'],
      ['GET', '/api/jobs/j?wait=2'],
      ['GET', '/api/jobs/j/ledger'],
      ['DELETE', '/api/jobs/j'],
    ];
    for (const [method = '', path = ''] of paths) expect((await ask(who, method, path)).status).toBe(404);
    expect(asked).toEqual([
      ['get', 'j', viewer],
      ['wait', 'j', 2000, viewer],
      ['ledger', 'j', viewer],
      // For the audit, of who may cancel what is another's.
      ...(viewer === null ? [['ownerOf', 'j']] : []),
      ['cancel', 'j', 'cancelled', viewer],
    ]);
  });

  it('is seen by who may look at everything, and not cancelled', async () => {
    const { ask, asked } = recording();
    await ask('dashboard', 'GET', '/api/jobs/j');
    expect((await ask('dashboard', 'DELETE', '/api/jobs/j')).status).toBe(403);
    expect(asked).toEqual([['get', 'j', null]]);
  });
});

describe('a worker whose token is bound to an id', () => {
  it('dials under that id alone, and the gateway tells its queue', async () => {
    const { ask, dialled } = recording();
    const headers = { upgrade: 'websocket' };
    const dial = (path: string) => ask('bound', 'GET', path, { headers });
    expect((await dial('/ws?worker_id=vast-1')).status).toBe(403);
    expect((await dial('/answers?worker_id=vast-1')).status).toBe(403);
    expect(dialled).toEqual([]);
    expect((await dial('/ws?worker_id=runpod-1')).status).toBe(200);
    expect(dialled).toMatchObject([{ token: { name: 'Größe', worker_ids: 'runpod-*' } }]);
  });
  it('says nothing in the name of others by heartbeat', async () => {
    const { ask } = recording();
    const beat = (more: object) => {
      const body = JSON.stringify({ instance_id: 'vast-1', status: 'running', ...more });
      return ask('bound', 'POST', '/api/heartbeats', { body });
    };
    expect((await beat({})).status).toBe(403);
    expect((await beat({ instance_id: 'runpod-1', worker_id: 'vast-1' })).status).toBe(403);
    expect((await beat({ worker_id: 'runpod-1' })).status).toBe(200);
  });

  it('says nothing of itself where no tokens are configured', async () => {
    const { env, dialled } = recording();
    const headers = { upgrade: 'websocket' };
    await createApp(FEATURE_ROUTES).fetch(new Request('http://localhost/ws', { headers }), {
      ...env,
      TOKENS: '',
    });
    expect(dialled).toMatchObject([{ token: null, origin: 'http://localhost' }]);
  });
});
