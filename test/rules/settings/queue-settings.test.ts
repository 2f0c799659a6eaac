import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  bindingName,
  completeQueueSettings,
  defaultText,
  queueSettings,
  settingsFromBindings,
} from '../../../src/settings/queue-settings.ts';

describe('the table of queue settings', () => {
  it('is the one in the README', () => {
    const readme = readFileSync(new URL('../../../README.md', import.meta.url), 'utf8');
    const section = readme.split('### Queue (`queue`, `up`)')[1]?.split('\n### ')[0] ?? '';
    const rows = queueSettings().map(
      ([, setting]) => `| \`${setting.variable}\` | ${defaultText(setting)} | ${setting.help} |`,
    );
    const inReadme = section.split('\n').filter((line) => rows.includes(line));
    expect(inReadme).toEqual(rows);
  });

  it('gives what is not set its default, or the value of the setting that it follows', () => {
    const values = completeQueueSettings({ max_pending: 5, max_waiting: 7, max_waiting_per_tenant: 2 });
    expect(values).toMatchObject({
      lease_seconds: 30,
      max_pending: 5,
      max_pending_per_tenant: 5,
      max_waiting: 7,
      max_waiting_per_tenant: 2,
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
    const variables = queueSettings().map(([, { variable }]) => variable);
    expect(new Set(variables).size).toBe(variables.length);
    expect(bindingName('max_pending_per_tenant')).toBe('MAX_PENDING_PER_TENANT');
  });
});
