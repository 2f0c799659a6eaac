import { expect, test } from 'vitest';
import { secretHider } from '../../../src/process/secrets.ts';

test('values of variables named as secrets are hidden wherever they stand, short ones and others are not', () => {
  const hide = secretHider({
    HF_TOKEN: 'hf_abc',
    VLLM_API_KEY: 'sk-1',
    TOKENIZER: 'owner/name',
    SECRET: 'no',
    PASSWORD: undefined,
  });
  expect(hide('--api-key sk-1 hf_abc hf_abc, no owner/name')).toBe(
    '--api-key (secret) (secret) (secret), no owner/name',
  );
});
