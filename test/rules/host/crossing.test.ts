import { describe, expect, it } from 'vitest';
import {
  answerRequest,
  argumentsOfUpgrade,
  isUpgrade,
  upgradeWith,
  wantedAnswer,
} from '../../../src/host/cloudflare/crossing.ts';
import type { WorkerDial } from '../../../src/queue/rpc.ts';

const DIAL: WorkerDial = {
  origin: 'https://queue.example',
  token: { name: 'Größe "1"', sha256: 'abc', expires_at: 1, worker_ids: 'runpod-*', config_id: null },
  price_per_hour: 0.5,
};

describe('what crosses to an object by fetch', () => {
  it('goes with an upgrade from the gateway, whatever the caller says', () => {
    const headers = { upgrade: 'websocket', 'x-arguments': '{"token":null}', 'sec-websocket-key': 'k' };
    const upgrade = upgradeWith(new Request('https://queue.example/ws', { headers }), DIAL);
    expect(isUpgrade(upgrade)).toBe(true);
    expect(upgrade.headers.get('sec-websocket-key')).toBe('k');
    expect(argumentsOfUpgrade<WorkerDial>(upgrade)).toEqual(DIAL);
  });

  it('names the answer that is wanted of a relay', () => {
    const wanted = { stream: 7, more: { 'x-request-id': 'é' }, asked: null, isReplay: true };
    const request = answerRequest(wanted);
    expect(isUpgrade(request)).toBe(false);
    expect(wantedAnswer(request)).toEqual(wanted);
  });
});
