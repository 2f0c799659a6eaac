import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { playedQueue, ROADS } from '../support/every-road.ts';
import { type HookReceiver, startHookReceiver } from '../support/hook-receiver.ts';
import { asks } from '../support/played-answers.ts';
import { until } from '../support/poll.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** What is kept of a request is what hooks left of it. */

let receiver: HookReceiver;
const bindings: Record<string, string> = {
  KEEP_REQUESTS: 'all',
  HOOK_SECRET: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
  HOOK_HOLD: '12',
  HOOK_SECONDS: '5',
  TOKENS: JSON.stringify([
    tokenEntry('app', ['submit'], { tenant: 'team' }),
    tokenEntry('worker', ['worker']),
    tokenEntry('operator', ['admin', 'read']),
  ]),
};

beforeAll(async () => {
  receiver = await startHookReceiver(({ stage, body, text }) => {
    const said = stage === 'before' ? JSON.stringify(body) : String(text);
    const masked = said.replaceAll('NAME-OF-CALLER', 'MASK').replaceAll('WORD-OF-ENGINE', '******');
    if (masked === said) return { action: 'allow' };
    return stage === 'before'
      ? { action: 'replace', body: JSON.parse(masked) }
      : { action: 'replace', text: masked };
  });
  bindings.HOOK_BEFORE = `private:${receiver.url}/before`;
  bindings.HOOK_AFTER = `private:${receiver.url}/after`;
});
afterAll(() => receiver.stop());

const road = startTestQueue(bindings);
const CHAT = '/v1/chat/completions';
/** The roads on which a filter is called in another place each. */
const OFTEN = [
  'a live request',
  'a live stream',
  'a stored job',
  'the stream of a stored job',
  'a line of a batch',
];

async function recordsOf(queue: Awaited<ReturnType<typeof playedQueue>>): Promise<Record<string, unknown>[]> {
  const text = await (await queue.ask('/api/kept-requests/records', undefined, 'operator')).text();
  return text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Returns the files of the databases of records that hold a text. */
function keptFilesWith(text: string): string[] {
  const all = readdirSync(road.stateDir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .filter((file) => file.includes('keptRequests'));
  expect(all.length).toBeGreaterThan(0);
  return all.filter((file) => readFileSync(file).includes(text));
}

describe('a request that hooks changed', () => {
  it.each(OFTEN)('is kept as they left it, on the road of %s', async (name) => {
    const queue = await playedQueue(road);
    const body = { model: 'tiny', ...asks('chat', 'I am NAME-OF-CALLER') };
    await ROADS[name]!(queue, CHAT, 'chat', body, 'They call it WORD-OF-ENGINE, and nothing else.');
    const records = await until(async () => {
      const kept = await recordsOf(queue);
      return kept.length > 0 ? kept : null;
    }, 'it is kept');
    expect(records).toHaveLength(1);
    expect(JSON.stringify(records[0]!['gen_ai.input.messages'])).toContain('I am MASK');
    expect(JSON.stringify(records[0]!['gen_ai.output.messages'])).toContain('They call it ******, and');
    expect(JSON.stringify(records)).not.toMatch(/NAME-OF-CALLER|WORD-OF-ENGINE/);
  });

  it('leaves none of the words that they masked on the disk of the records', async () => {
    // The log of the database is written into it when the process ends.
    await road.restart(bindings);
    expect(keptFilesWith('I am MASK')).not.toEqual([]);
    expect(keptFilesWith('NAME-OF-CALLER')).toEqual([]);
    expect(keptFilesWith('WORD-OF-ENGINE')).toEqual([]);
  });
});
