import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import * as z from 'zod';
import { queueVariables } from '../../../src/host/node/settings.ts';
import { readEnvironment, UserError, variable } from '../../../src/process/index.ts';
import { readContainerVariables } from '../../../src/supervisor/variables.ts';

const folder = mkdtempSync(join(tmpdir(), 'environment-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** What is wrong with one variable of a kind; null: nothing. */
function problem(kind: z.ZodType, value: string, name = 'NAME'): string | null {
  try {
    readEnvironment(z.object({ [name]: kind }), { [name]: value });
    return null;
  } catch (error) {
    expect(error).toBeInstanceOf(UserError);
    return (error as Error).message;
  }
}
const read = (kind: z.ZodType, value: string) =>
  (readEnvironment(z.object({ NAME: kind }), { NAME: value }) as { NAME: unknown }).NAME;

describe('a header', () => {
  it.each([
    ['one\ntwo', 'its character 4 is a line break'],
    ['one\rtwo', 'its character 4 is a line break'],
    ['“token”', 'its character 1 is a curly quotation mark (U+201C)'],
    ['one two', 'its character 4 is a blank'],
    ['tökén', 'its character 2 is U+00F6'],
    ['a\u0000b', 'its character 2 is U+0000'],
  ])('may not be %j', (value, expected) => {
    expect(problem(variable.header(), value)).toContain(expected);
  });

  it('loses the line break at its end, as files have it', () => {
    expect(read(variable.header(), ' token\n')).toBe('token');
  });
});

describe('an address', () => {
  const url = variable.baseUrl('http:', 'https:');
  it.each([
    'host:8000',
    'http//host',
    'http:/host',
    'http://a b',
    'http://ho\nst',
    'ftp://host',
    'http://host/?key=1',
    'http://host/#top',
    'http://me:word@host',
    'http://',
  ])('may not be %j', (value) => {
    expect(problem(url, value)).toContain('expected');
  });

  it.each(['http://host', 'https://host:8443/v1/', 'http://[::1]:8000', ' http://host '])(
    'may be %j',
    (value) => {
      expect(problem(url, value)).toBeNull();
    },
  );
});

describe('a proxy', () => {
  it('may have a user name and a password, and need not say http://', () => {
    expect(read(variable.proxy(), 'http://me:word@proxy:3128')).toBe('http://me:word@proxy:3128');
    expect(read(variable.proxy(), 'proxy:3128')).toBe('http://proxy:3128');
  });

  it.each(['socks5://proxy:1080', 'http://', 'http://pro xy', 'http://me:100%@proxy'])(
    'may not be %j',
    (value) => {
      expect(problem(variable.proxy(), value)).toContain('expected');
    },
  );
});

describe('a host', () => {
  it.each([
    ['[::1]', '::1'],
    ['::', '::'],
    ['localhost', 'localhost'],
    ['0.0.0.0', '0.0.0.0'],
    ['*', '*'],
  ])('%s is %s', (value, host) => {
    expect(read(variable.host(), value)).toBe(host);
  });

  it.each(['http://localhost', 'localhost:80', 'a b', '[::1]:80', 'a\nb'])('may not be %j', (value) => {
    expect(problem(variable.host(), value)).toContain('expected a name or an address');
  });
});

describe('a path', () => {
  it('may be there or not', () => {
    expect(problem(variable.path(), folder)).toBeNull();
    expect(problem(variable.path(), join(folder, 'not/yet'))).toBeNull();
  });

  it('may not have line breaks, names that are too long, or a file for a folder', () => {
    writeFileSync(join(folder, 'file'), '');
    expect(problem(variable.path(), '/a\n/b')).toContain('line breaks');
    expect(problem(variable.path(), `/tmp/${'x'.repeat(256)}`)).toContain('255 bytes');
    expect(problem(variable.path(), join(folder, 'file/spool'))).toContain('file is no folder');
  });
});

/** In every place of a value, in every way of being wrong. */
const MARK = 'hush-hush';
const BROKEN = [
  `${MARK}\n${MARK}`,
  `“${MARK}”`,
  `${MARK} ${MARK}`,
  `http//me:${MARK}@host`,
  `htp://me:${MARK}@host/${MARK}`,
  `https://me:${MARK}@host`,
  `https://me:a/${MARK}@host:x`,
  `me:${MARK}@host`,
  `http:/host/${MARK}?key=${MARK}`,
  `ftp://host/${MARK}?key=${MARK}#${MARK}`,
  `https://ho st/${MARK}`,
  `https://host\n/${MARK}`,
  `socks5://me:${MARK}@host`,
];
const GOOD = { CASOLA_WS_URL: 'ws://queue', CASOLA_CONFIG_ID: 'cfg', VLLM_MODEL: 'a/b' };

describe('a secret that is in a variable', () => {
  const names = Object.keys({
    ...readContainerVariables(GOOD, queueVariables),
    ...queueVariables,
    CASOLA_API_TOKEN: '',
    ENGINE_API_KEY: '',
    VLLM_API_KEY: '',
    FD_API_KEY: '',
    HF_TOKEN: '',
    RUNPOD_AI_API_KEY: '',
    RUNPOD_API_KEY: '',
    CONTAINER_API_KEY: '',
    OTEL_EXPORTER_OTLP_ENDPOINT: '',
    VLLM_EXTRA_ARGS: '',
    VLLM_SERVE_COMMAND: '',
    ENGINE_URL: '',
    ENGINE_PREFILL_URL: '',
    CASOLA_API_URL: '',
    CASOLA_LOGS_URL: '',
    CASOLA_METRICS_URL: '',
    RUNPOD_WEBHOOK_GET_JOB: '',
    RUNPOD_WEBHOOK_POST_OUTPUT: '',
    WORKER_PAYLOAD_HOSTS: '',
  });
  const holding = names.filter(
    (name) => /KEY|TOKEN|SECRET|URL|WEBHOOK|ENDPOINT|ARGS|COMMAND|HOSTS/.test(name) && !/RAMP/.test(name),
  );

  it.each(holding)('%s is in no message about it', (name) => {
    for (const value of BROKEN) {
      let message = '';
      try {
        readContainerVariables({ ...GOOD, ENGINE_URL: 'http://engine', [name]: value }, queueVariables);
      } catch (error) {
        message = (error as Error).message;
      }
      expect(message).not.toContain(MARK);
    }
  });
});
