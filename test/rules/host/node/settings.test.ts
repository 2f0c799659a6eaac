import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { bindingsOf, readQueueSettings } from '../../../../src/host/node/settings.ts';

const state = join(tmpdir(), 'no-such-state-folder');

it('hands the operator’s variables to the queue object under its own names, and only those that are set', async () => {
  const env = {
    QUEUE_RETENTION_SECONDS: '3600',
    QUEUE_MAX_PENDING: '5',
    QUEUE_MAX_WAITING: '7',
    QUEUE_TENANT_SHARE: '0.5',
    QUEUE_RECONNECT_GRACE_SECONDS: '0',
  };
  const { TOKENS, ...bindings } = bindingsOf(await readQueueSettings({ state }, env));
  expect(TOKENS).toBe('[]');
  expect(bindings).toEqual({
    RETENTION_SECONDS: '3600',
    MAX_PENDING: '5',
    MAX_WAITING: '7',
    TENANT_SHARE: '0.5',
    RECONNECT_GRACE_SECONDS: '0',
  });
});

it('adds the tokens of QUEUE_TOKENS, and names a bad one without showing it', async () => {
  const { tokens } = await readQueueSettings({ state }, { QUEUE_TOKENS: 'admin:three' });
  expect(tokens).toMatchObject([{ name: 'QUEUE_TOKENS 1', scopes: ['admin'] }]);
  const refused = readQueueSettings({ state }, { QUEUE_TOKENS: 'boss:hidden', QUEUE_PORT: 'x' });
  await expect(refused).rejects.toThrow(
    /QUEUE_PORT="x".*\n.*QUEUE_TOKENS=\(secret\): entry 1: the scope "boss"/,
  );
});

it('names a variable that cannot be', async () => {
  await expect(readQueueSettings({ state }, { QUEUE_MAX_PENDING: 'many' })).rejects.toThrow(
    'QUEUE_MAX_PENDING',
  );
});

it('says of a file of receivers that it is not there, and where its JSON has a fault', async () => {
  const read = (QUEUE_ALERTS: string) => readQueueSettings({ state }, { QUEUE_ALERTS });
  await expect(read(`${state}/alerts.json`)).rejects.toThrow(`there is no file ${state}/alerts.json`);
  const folder = mkdtempSync(join(tmpdir(), 'receivers-'));
  writeFileSync(join(folder, 'alerts.json'), '[{"url": "hush"},]');
  await expect(read(join(folder, 'alerts.json'))).rejects.toThrow(/Unexpected token '\]'$/);
  rmSync(folder, { recursive: true });
});
