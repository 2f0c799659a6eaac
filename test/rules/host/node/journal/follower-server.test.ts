import { afterEach, expect, it, vi } from 'vitest';
import { FollowerServer } from '../../../../../src/host/node/journal/follower-server.ts';

afterEach(() => void vi.useRealTimers());

it('a follower is healthy while it is less than five seconds behind', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  const place = () => ({ seq: 7, epoch: 1 });
  const at = { host: '127.0.0.1', port: 0 };
  const server = await FollowerServer.listen(at, place);
  try {
    const health = async () => {
      const response = await fetch(`${server.url}/health`);
      return [response.status, await response.json()];
    };
    const told = { role: 'follower', owner: null, entry: 7 };
    vi.advanceTimersByTime(4900);
    expect(await health()).toEqual([200, { ...told, status: 'ok', behind_seconds: 4.9 }]);
    vi.advanceTimersByTime(100);
    expect(await health()).toEqual([503, { ...told, status: 'behind', behind_seconds: 5 }]);
    server.followed('10.0.0.7:8788');
    expect(await health()).toMatchObject([200, { owner: '10.0.0.7:8788', behind_seconds: 0 }]);
    expect((await fetch(`${server.url}/livez`)).status).toBe(200);
    expect((await fetch(`${server.url}/v1/models`)).status).toBe(503);
  } finally {
    await server.close();
  }
});
