import { expect, it } from 'vitest';
import type { FleetView } from '../../src/protocol/index.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** What an operator says about the versions of a pool's workers, over HTTP. */

const road = startTestQueue();

/** A queue of its own, with a fleet of one pool whose image is `image`. */
async function fleetOf(image: string) {
  const queue = road.newQueue();
  const call = async (path: string, body?: object) => {
    const answer = await fetch(`${road.url}${path}`, {
      method: body ? 'POST' : 'GET',
      headers: { 'x-queue-id': queue },
      ...(body && { body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  };
  const apply = async (image: string) => {
    const chat = { model: 'tiny', image, max: 2, machines: [{ provider: 'cloud', price_per_hour: 1 }] };
    const spec = { providers: { cloud: { driver: 'runpod' } }, pools: { chat } };
    expect((await call('/api/fleet/spec', { spec })).status).toBe(200);
  };
  await apply(image);
  return {
    apply,
    roll: (body: object, pool = 'chat') => call(`/api/fleet/pools/${pool}/roll`, body),
    /** The pool's versions, the newest first. */
    versions: async () => {
      const view = (await call('/api/fleet')).body as unknown as FleetView;
      return view.pools.find(({ config_id }) => config_id === 'chat')!.scaling!.versions;
    },
  };
}

const message = ({ body }: { body: Record<string, unknown> }) =>
  (body as { error: { message: string; code: string } }).error;

it('goes to a version that is kept, and names those that are kept where it is not', async () => {
  const fleet = await fleetOf('chat:1');
  await fleet.apply('chat:2');
  const [second, first] = await fleet.versions();
  expect([second, first]).toMatchObject([
    { state: 'wanted', what: 'image chat:2', is_proved: false },
    { state: 'kept' },
  ]);
  const version = first!.version;
  const would = await fleet.roll({ action: 'to', version, dry_run: true });
  expect(would).toMatchObject({ status: 200, body: { wanted: version } });
  expect((await fleet.versions())[0]).toMatchObject({ version: second!.version });
  expect((await fleet.roll({ action: 'to', version })).body).toMatchObject({ wanted: version });
  expect((await fleet.versions())[0]).toMatchObject({ version, state: 'wanted' });

  const gone = await fleet.roll({ action: 'to', version: '0123456789' });
  expect(gone.status).toBe(404);
  expect(message(gone)).toMatchObject({ code: 'version_not_found' });
  for (const known of [first!, second!]) expect(message(gone).message).toContain(known.version);
});

it('refuses to go back where no version has served, and a pool that is not there, with what there is', async () => {
  const fleet = await fleetOf('chat:1');
  const back = await fleet.roll({ action: 'back' });
  expect(back.status).toBe(404);
  expect(message(back).message).toMatch(/^chat: there is no version to go back to/);
  const other = await fleet.roll({ action: 'anew' }, 'chta');
  expect(other.status).toBe(404);
  expect(message(other)).toMatchObject({
    code: 'pool_not_found',
    message: expect.stringContaining('only chat'),
  });
});

it('starts the same anew as another version, again and again, and at most three are kept', async () => {
  const fleet = await fleetOf('chat:1');
  const seen = new Set([(await fleet.versions())[0]!.version]);
  for (let round = 0; round < 3; round++) {
    const { status, body } = await fleet.roll({ action: 'anew' });
    expect(status).toBe(200);
    seen.add(String(body.wanted));
  }
  expect(seen.size).toBe(4);
  expect(await fleet.versions()).toHaveLength(3);
});

it('refuses a body that says something else, naming what is wrong', async () => {
  const fleet = await fleetOf('chat:1');
  for (const body of [{}, { action: 'to' }, { action: 'sideways' }]) {
    const answer = await fleet.roll(body);
    expect(answer.status, JSON.stringify(body)).toBe(400);
    expect(message(answer).code).toBe('invalid_roll');
  }
});
