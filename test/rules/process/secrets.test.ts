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

test('a secret is hidden whole, whatever blanks its variable has around it and whatever other secret it begins with', () => {
  const hide = secretHider({ ONE_KEY: 'sk-1', OTHER_KEY: 'sk-1-long', HF_TOKEN: 'hf_abc\n' });
  expect(hide('sk-1 sk-1-long hf_abc')).toBe('(secret) (secret) (secret)');
});

test('the password of a journal is hidden, as it stands in its address and as it is meant', () => {
  const hide = secretHider({
    QUEUE_JOURNAL: 'postgres://queue:a%26bcd@db.internal:5432/queue?sslmode=require',
  });
  expect(hide('postgres://queue:a%26bcd@db.internal:5432/queue: no role "queue" with a&bcd')).toBe(
    'postgres://queue:(secret)@db.internal:5432/queue: no role "queue" with (secret)',
  );
  const asParameter = secretHider({
    QUEUE_JOURNAL: 'postgres://db.internal/queue?user=queue&password=abcdef',
    PGPASSWORD: 'ghijkl',
  });
  expect(asParameter('abcdef ghijkl queue')).toBe('(secret) (secret) queue');
  // An address that cannot be read is refused in words, after messages hide what may be its password.
  const malformed = secretHider({ QUEUE_JOURNAL: 'postgres://queue:100%sure@db.internal/queue' });
  expect(malformed('100%sure')).toBe('(secret)');
  expect(secretHider({ QUEUE_JOURNAL: 'file:/var/lib/journal' })('file:/var/lib/journal')).toBe(
    'file:/var/lib/journal',
  );
});

test('secrets inside command lines, lists of tokens and headers are hidden too', () => {
  const hide = secretHider({
    VLLM_EXTRA_ARGS: '--api-key "sk-one" sk-two --max-model-len 4096 --hf-token=hf_three',
    VLLM_SERVE_COMMAND: 'vllm --api-key sk-four',
    QUEUE_TOKENS: 'submit:wv_five, worker@runpod-*:wv_six',
    OTEL_EXPORTER_OTLP_HEADERS: 'x-api-key=seven,x-other=eight',
  });
  expect(
    hide(
      "{'api_key': ['sk-one', 'sk-two'], 'max_model_len': 4096} hf_three sk-four wv_five wv_six seven eight",
    ),
  ).toBe(
    "{'api_key': ['(secret)', '(secret)'], 'max_model_len': 4096} (secret) (secret) (secret) (secret) (secret) (secret)",
  );
});
