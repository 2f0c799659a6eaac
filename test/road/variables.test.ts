import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { afterAll, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import { freePort } from '../support/ports.ts';
import { startProcess } from '../support/processes.ts';
import { CLI, cleanEnvironment, cli, stateFolder, tearDown } from '../support/road.ts';

afterAll(tearDown);

it.each([
  ['supervise', { VLLM_MODLE: 'a/b' }, 'VLLM_MODLE', 'VLLM_MODEL', 'VLLM_MODEL is not set'],
  ['work', { ENGINE_ULR: 'http://x' }, 'ENGINE_ULR', 'ENGINE_URL', 'ENGINE_URL is not set'],
  ['queue', { QUEUE_PROT: '1', QUEUE_PORT: 'x' }, 'QUEUE_PROT', 'QUEUE_PORT', 'QUEUE_PORT="x"'],
])('%s says which variable is misspelt, and then what is wrong', async (command, env, name, meant, wrong) => {
  const process = cli([command], env);
  expect((await process.exited).code).toBe(EXIT.configuration);
  expect(process.output()).toContain(`warning: ${name} is ignored`);
  expect(process.output()).toContain(`did you mean ${meant}?`);
  expect(process.output()).toContain(wrong);
});

it('a worker alone without variables asks for those that its help names', async () => {
  const process = cli(['work']);
  expect((await process.exited).code).toBe(EXIT.configuration);
  for (const name of ['CASOLA_WS_URL', 'CASOLA_CONFIG_ID', 'ENGINE_URL'])
    expect(process.output()).toContain(`${name} is not set`);
  expect(process.output()).not.toContain('VLLM_MODEL');
});

it('a model says that the engine beside a worker alone is vLLM, wherever it listens', async () => {
  const process = cli(['work'], { VLLM_MODEL: 'a/b' });
  expect((await process.exited).code).toBe(EXIT.configuration);
  expect(process.output()).not.toContain('ENGINE_URL');
});

/** A marked secret in every variable that can hold one, each broken in one way. */
const MARK = 'hush-hush';
const TOKENS = [
  'CASOLA_API_TOKEN',
  'ENGINE_API_KEY',
  'VLLM_API_KEY',
  'FD_API_KEY',
  'HF_TOKEN',
  'RUNPOD_AI_API_KEY',
  'RUNPOD_API_KEY',
  'CONTAINER_API_KEY',
];
const ADDRESSES = [
  'OTEL_EXPORTER_OTLP_ENDPOINT',
  'CASOLA_API_URL',
  'CASOLA_LOGS_URL',
  'CASOLA_METRICS_URL',
  'ENGINE_PREFILL_URL',
  'HF_ENDPOINT',
];
const HEADERS = ['OTEL_EXPORTER_OTLP_HEADERS', 'OTEL_EXPORTER_OTLP_TRACES_HEADERS'];
const NAMES = ['CASOLA_CONFIG_ID', 'CASOLA_QUEUE_ID', 'CASOLA_INSTANCE_ID', 'RUNPOD_POD_ID', 'CONTAINER_ID'];
const WORKER = {
  CASOLA_WS_URL: 'ws://127.0.0.1:9',
  CASOLA_CONFIG_ID: 'cfg',
  ENGINE_URL: 'http://127.0.0.1:9',
};
const all = (names: string[], value: string) => Object.fromEntries(names.map((name) => [name, value]));

it.each([
  ['supervise', all(TOKENS, `${MARK}\n${MARK}`)],
  ['supervise', all(TOKENS, `“${MARK}”`)],
  ['supervise', all(ADDRESSES, `https://me:${MARK}@host/?key=${MARK}`)],
  ['work', all(TOKENS, `${MARK}\n${MARK}`)],
  ['work', all([...ADDRESSES, 'ENGINE_URL'], `htp//me:${MARK}@host`)],
  ['queue', { QUEUE_ALERT_URL: `htps://host/${MARK}`, QUEUE_TOKENS: `submit:${MARK},nothing:${MARK}` }],
  ['work', all(['HTTPS_PROXY', 'HTTP_PROXY'], `socks5://me:${MARK}@host`)],
  ['work', all(HEADERS, `x-key=${MARK},y=%0a`)],
  ['work', all(HEADERS, `authorization=“${MARK}”`)],
  ['supervise', all(HEADERS, `x y=${MARK}`)],
  ['work', all(HEADERS, `x=${MARK}100%`)],
  ['work', { WORKER_PRICE_PER_HOUR: '1e308', CASOLA_CREATED_AT: '1e300', VLLM_STARTUP_TIMEOUT: '1e9' }],
  ['work', { CASOLA_VERSION: 'a version' }],
  ['work', { CASOLA_VERSION: 'a'.repeat(65) }],
  ['work', all(NAMES, 'a\nb')],
  ['supervise', all([...NAMES, 'VLLM_MODEL', 'VLLM_SERVED_MODEL_NAME'], 'a\u001b[31m')],
])('%s names every variable that is wrong, and shows no secret of it: %j', async (command, wrong) => {
  const process = cli([command], { ...(command === 'queue' ? {} : WORKER), ...wrong });
  expect((await process.exited).code).toBe(EXIT.configuration);
  for (const name of Object.keys(wrong)) expect(process.output()).toContain(`${name}=`);
  expect(process.output()).not.toContain(MARK);
});

it.each([
  ['submit', 'hello'],
  ['batch', 'list'],
  ['top', '--json'],
  ['token', 'list', '--url', 'http://127.0.0.1:9'],
  ['fleet', 'status'],
  ['launcher'],
])('%s %s names a token and an address that cannot be sent, and does not show them', async (...command) => {
  const token = cli(command, { CASOLA_API_TOKEN: `${MARK}\n${MARK}` });
  expect((await token.exited).code).toBe(EXIT.configuration);
  expect(token.output()).toContain('CASOLA_API_TOKEN=(secret): its character 10 is a line break');
  const typed = cli([...command, '--token', `“${MARK}”`]);
  expect((await typed.exited).code).toBe(EXIT.configuration);
  expect(typed.output()).toContain('--token=(secret): its character 1 is a curly quotation mark');
  const address = cli([...command, '--url', `http://me:${MARK}@127.0.0.1:9`]);
  expect((await address.exited).code).toBe(EXIT.configuration);
  expect(address.output()).toContain(
    '--url="http://(secret)@127.0.0.1:9": expected no user name and password',
  );
  expect([token, typed, address].map((process) => process.output()).join()).not.toContain(MARK);
});

it.each([
  ['submit', 'hello'],
  ['batch', 'list'],
  ['fleet', 'status'],
])('%s %s takes its address and its token without the blanks around them', async (...command) => {
  const env = { QUEUE_URL: ' http://127.0.0.1:9/ ', CASOLA_API_TOKEN: ' t\n' };
  const padded = cli(command, env);
  await padded.exited;
  expect(padded.output()).toMatch(/No queue answers at|cannot be reached/);
  expect(padded.output()).not.toMatch(/Invalid URL|failed unexpectedly/);
  const blank = cli(command, { QUEUE_URL: '  ' });
  await blank.exited;
  expect(blank.output()).toContain('http://127.0.0.1:8788');
  const empty = cli([...command, '--url', ' ']);
  expect((await empty.exited).code).toBe(EXIT.configuration);
  expect(empty.output()).toContain('--url is not set');
});

it.each([
  ['launcher', '--id', 'a\nb', '--id="a\\nb": expected no line breaks'],
  ['launcher', '--state', '/dev/null/x', '--state="/dev/null/x": /dev/null is no folder'],
  ['queue', '--host', 'no-such-host.invalid', 'Cannot listen on no-such-host.invalid:'],
  ['up', '--fleet', 'examples/fleet.yaml', 'CASOLA_QUEUE_ID="grün": its character 3 is U+00FC'],
])('%s %s %j is refused: %s', async (command, option, value, text) => {
  const env = { QUEUE_TOKENS: 'admin:t', WORKER_VLLM_STATE: stateFolder(), CASOLA_QUEUE_ID: 'grün' };
  const process = cli([command, option, value], env);
  expect((await process.exited).code).toBe(EXIT.configuration);
  expect(process.output()).toContain(text);
});

it('the local API of RunPod takes an IPv6 address, and no port that there is none of', async () => {
  const options = ['supervise', '--rp_serve_api', '--rp_api_host', '::1', '--rp_api_port'];
  const env = { ENGINE_URL: WORKER.ENGINE_URL };
  const wrong = cli([...options, '99999'], env);
  expect((await wrong.exited).code).toBe(EXIT.configuration);
  expect(wrong.output()).toContain('RUNPOD_SERVE_API="[::1]:99999": expected host:port');
  const api = cli([...options, String(await freePort())], env);
  await api.waitForLine(/local API is at http:\/\/\[::1\]:/);
  await api.stop();
});

it('a launcher names keys of providers that cannot be sent', async () => {
  const keys = all(['RUNPOD_API_KEY', 'VAST_API_KEY', 'DSTACK_TOKEN'], `${MARK}\n${MARK}`);
  const launcher = cli(['launcher', '--state', stateFolder()], keys);
  expect((await launcher.exited).code).toBe(EXIT.configuration);
  for (const name of Object.keys(keys)) expect(launcher.output()).toContain(`${name}=(secret): `);
  expect(launcher.output()).not.toContain(MARK);
});

it('a queue listens on an IPv6 address in brackets', async () => {
  const queue = cli(['queue', '--host', '[::1]', '--port', '0', '--state', stateFolder()]);
  await queue.waitForLine(/listening at http:\/\/\[::1\]:\d+ \(/);
});

it('a queue that listens at every address says so', async () => {
  const env = { QUEUE_TOKENS: 'submit:secret' };
  const queue = cli(['queue', '--host', '0.0.0.0', '--port', '0', '--state', stateFolder()], env);
  await queue.waitForLine(
    /listening at http:\/\/127\.0\.0\.1:\d+ and at every other address of this machine \(/,
  );
});

/** Runs as a user that /etc/passwd does not know, as containers often do. */
const AS_NOBODY = ['--user', '--map-user=54321', '--map-group=54321'];
const canUnshare = spawnSync('unshare', [...AS_NOBODY, 'true']).status === 0;

it.skipIf(!canUnshare)(
  'a user without a home folder is asked for the folder that is looked for there',
  async () => {
    const env = { ...cleanEnvironment(), ...WORKER };
    for (const name of ['HOME', 'XDG_STATE_HOME', 'XDG_CACHE_HOME', 'HF_HOME'])
      delete env[name as keyof typeof env];
    const start = (more: NodeJS.ProcessEnv) =>
      startProcess('unshare', [...AS_NOBODY, process.execPath, CLI, 'work'], {
        env: { ...env, ...more },
        cwd: tmpdir(),
        name: 'work',
      });
    const homeless = start({});
    expect((await homeless.exited).code).toBe(EXIT.configuration);
    expect(homeless.output()).toContain('Set WORKER_SPOOL_DIR to a folder, or HOME');
    const worker = start({ WORKER_SPOOL_DIR: stateFolder() });
    await worker.waitForLine(/worker starting/);
  },
);
