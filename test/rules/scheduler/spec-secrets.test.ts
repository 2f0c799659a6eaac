import { expect, it } from 'vitest';
import { FleetSpec } from '../../../src/scheduler/spec.ts';

/** Those of the variables that a spec may not hold. */
function refused(names: string[]): string[] {
  const env = Object.fromEntries(names.map((name) => [name, 'x']));
  const chat = { model: 'tiny', env, machines: [{ provider: 'here' }] };
  const parsed = FleetSpec.safeParse({ providers: { here: { driver: 'process' } }, pools: { chat } });
  for (const { message } of parsed.error?.issues ?? []) expect(message).toContain('under "secrets"');
  return (parsed.error?.issues ?? []).map(({ path }) => String(path.at(-1)));
}

it('a spec, which every read token is shown, holds no secrets', () => {
  const secrets = [
    'HF_TOKEN',
    'CASOLA_API_TOKEN',
    'VLLM_API_KEY',
    'openai_apikey',
    'AWS_SECRET_ACCESS_KEY',
    'S3_SECRET',
    'DB_PASSWORD',
    'REGISTRY_CREDENTIALS',
  ];
  expect(refused(secrets)).toEqual(secrets);
  const others = [
    'MAX_TOKENS',
    'TOKENIZER',
    'AWS_ACCESS_KEY_ID',
    'GOOGLE_APPLICATION_CREDENTIALS',
    'KEY_CACHE',
  ];
  expect(refused(others)).toEqual([]);
});
