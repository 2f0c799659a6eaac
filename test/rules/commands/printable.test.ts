import { describe, expect, it } from 'vitest';
import { clean } from '../../../src/commands/terminal.ts';
import { traceText } from '../../../src/commands/trace.ts';
import { isPlain, printable } from '../../../src/protocol/index.ts';
import { TokenChanges, TokenRequest } from '../../../src/settings/token-entry.ts';

/** Text from elsewhere steers no terminal. */

const ODD = ['\u001b[2J', '\u009b31m', '\u007f', '\u202eevil', '\u2028', '\ud800', 'a\udfff', '\0', '\r'];

it.each(ODD)('%j is shown as it would stand in JSON', (odd) => {
  const shown = printable(`Größe 😀 ${odd}\tb\nc`);
  expect(isPlain(shown.replaceAll(/[\n\t]/g, ''))).toBe(true);
  expect(shown).toContain('Größe 😀 ');
  expect(JSON.parse(`"${printable(odd)}"`)).toBe(odd);
  expect(clean(`a${odd}\nb`)).not.toContain('\n');
  const step = {
    at: '2026-01-01T00:00:00.000Z',
    step: 'failed',
    attempt: 1,
    fence_token: 1,
    worker_id: odd,
    detail: odd,
  };
  expect(isPlain(traceText('j', [step as never]).replaceAll('\n', ''))).toBe(true);
});

describe('a token', () => {
  it.each([...ODD, 'a\nb', 'a\tb'])('is not made with %j in a name', (odd) => {
    const asked = { name: 'n', scopes: ['submit'] };
    expect(TokenRequest.safeParse(asked).success).toBe(true);
    for (const more of [
      { name: odd },
      { tenant: odd },
      { worker_id: odd },
      { models: [odd] },
      { routes: [`/${odd}`] },
    ]) {
      expect(TokenRequest.safeParse({ ...asked, ...more }).success).toBe(false);
    }
    expect(TokenChanges.safeParse({ tenant: odd }).success).toBe(false);
  });
});
