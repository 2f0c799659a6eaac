import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Simulator, startSimulator } from '../../src/simulator/index.ts';
import { parseArguments } from '../../src/simulator/options.ts';
import { longChat, said, tokensFromElsewhere } from '../support/long-prompts.ts';

/** Two simulators hand caches to each other as two vLLMs do, with the same dangers (docs/prefill.md). */
const ASKED = { do_remote_decode: true, do_remote_prefill: false, remote_block_ids: null, remote_host: null };
let prefiller: Simulator;
let decoder: Simulator;

beforeEach(async () => {
  prefiller = await startSimulator({ model: 'tiny', kvTransferConfig: { policy: 'fail' } });
  decoder = await startSimulator({ model: 'tiny', kvTransferConfig: { policy: 'fail' } });
});
afterEach(() => Promise.all([prefiller, decoder].map((simulator) => simulator.close())));

type Params = Record<string, unknown>;

async function prefill(at: number): Promise<Params> {
  const answer = await fetch(`${prefiller.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(longChat(at, { max_tokens: 1, kv_transfer_params: ASKED })),
  });
  return ((await answer.json()) as { kv_transfer_params: Params }).kv_transfer_params;
}

const decode = (at: number, params: Params, more: object = {}) =>
  said(decoder.url, longChat(at, { kv_transfer_params: params, ...more }));

describe('blocks of another engine', () => {
  it('are read, and the answer is as if they had been computed here', async () => {
    const params = await prefill(1);
    expect(await decode(1, params)).toEqual(await said(decoder.url, longChat(1)));
    expect(await tokensFromElsewhere(decoder.url)).toBe(params.remote_num_tokens);
  });

  it('that were read before give the answer to another prompt', async () => {
    const params = await prefill(1);
    await decode(1, params);
    const { status, text } = await decode(1, params);
    expect(status).toBe(200);
    expect(text).not.toBe((await said(decoder.url, longChat(1))).text);
  });

  it.each<[string, (params: Params) => Params]>([
    ['of a shorter prompt', (params) => params],
    ['that are none', (params) => ({ ...params, remote_block_ids: null })],
  ])('%s end the engine', async (_, change) => {
    const { messages } = longChat(1);
    const more = { messages: [...messages, ...messages] };
    const { text } = await decode(1, change(await prefill(1)), more);
    expect(text).toContain('EngineCore encountered an issue');
    expect(await decoder.ended).toBe(0);
  });

  it.each([{ stream: false }, { stream: true }])('that nobody has are an error, %j', async (more) => {
    const params = { ...(await prefill(1)), remote_engine_id: 'another' };
    const { status, text } = await decode(1, params, more);
    expect([status, text]).toEqual([
      more.stream ? 200 : 500,
      expect.stringContaining('Internal server error'),
    ]);
  });

  it('that nobody has are computed where that is asked for', async () => {
    const recomputing = await startSimulator({ model: 'tiny', kvTransferConfig: { policy: 'recompute' } });
    const params = await prefill(1);
    await prefiller.close();
    const { text } = await said(recomputing.url, longChat(1, { kv_transfer_params: params }));
    expect(text).toBe((await said(recomputing.url, longChat(1))).text);
    await recomputing.close();
  });

  it('are not handed over by an engine without the connector', async () => {
    const plain = await startSimulator({ model: 'tiny' });
    const body = longChat(1, { kv_transfer_params: ASKED });
    expect((await said(plain.url, body)).text).toBe((await said(plain.url, longChat(1))).text);
    await plain.close();
  });
});

describe('--kv-transfer-config', () => {
  it('names a connector, and what becomes of blocks that cannot be read', () => {
    const read = (config: object) =>
      parseArguments(['tiny', '--kv-transfer-config', JSON.stringify(config)]).kvTransferConfig;
    expect(read({ kv_connector: 'NixlConnector', kv_role: 'kv_both' })).toEqual({ policy: 'fail' });
    expect(read({ kv_connector: 'NixlConnector', kv_load_failure_policy: 'recompute' })).toEqual({
      policy: 'recompute',
    });
    expect(read({ kv_connector: 'OffloadingConnector' })).toBeNull();
    expect(() => parseArguments(['tiny', '--kv-transfer-config', '{'])).toThrow(/invalid loads value/);
  });
});
