import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  bindingName,
  completeQueueSettings,
  defaultText,
  operatorSettings,
  queueSettings,
  settingsFromBindings,
  variableOf,
} from '../../../src/settings/queue-settings.ts';

describe('the table of queue settings', () => {
  it('is the one in docs/settings.md', () => {
    const page = readFileSync(new URL('../../../docs/settings.md', import.meta.url), 'utf8');
    const section = page.split('## Queue (`queue`, `up`)')[1]?.split('\n## ')[0] ?? '';
    const rows = operatorSettings().map(
      ([name, setting]) => `| \`${variableOf(name)}\` | ${defaultText(setting)} | ${setting.help} |`,
    );
    const inPage = section.split('\n').filter((line) => /^\| `(QUEUE|INFERENCE)_/.test(line));
    expect(inPage).toEqual(rows);
  });

  it('gives what is not set its default', () => {
    const values = completeQueueSettings({ max_pending: 5, max_waiting: 7 });
    expect(values).toMatchObject({
      lease_seconds: 30,
      max_pending: 5,
      max_waiting: 7,
      tenant_share: 1,
    });
    expect(Object.keys(values).sort()).toEqual(
      queueSettings()
        .map(([name]) => name)
        .sort(),
    );
  });

  it('reads bindings, empty ones as not set', () => {
    expect(
      settingsFromBindings({ MAX_PENDING: '5', LEASE_SECONDS: '', RECONNECT_GRACE_SECONDS: '0' }),
    ).toEqual({
      max_pending: 5,
      reconnect_grace_seconds: 0,
    });
  });

  it('has variables and bindings that are each used once', () => {
    const variables = queueSettings().map(([name]) => variableOf(name));
    expect(new Set(variables).size).toBe(variables.length);
    expect([variableOf('max_pending'), bindingName('max_pending')]).toEqual([
      'QUEUE_MAX_PENDING',
      'MAX_PENDING',
    ]);
    expect(variableOf('inference_routes')).toBe('INFERENCE_ROUTES');
  });
});
