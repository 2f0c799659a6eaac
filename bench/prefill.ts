import { commandLine, wholeFrom } from '../scripts/command-line.ts';
import { ensureNixl, ensureVllm, TINY_MODEL_ARGS } from '../scripts/vllm/setup.ts';
import type { EngineCall } from '../src/engine/client/types.ts';
import { decodeCall, prefillCall, readPrefill } from '../src/worker/prefill/request.ts';
import { freePort } from '../test/support/ports.ts';
import { type Child, startProcess } from '../test/support/processes.ts';

/**
 * Measures what it costs, and what others gain, that another engine prefills a prompt (docs/prefill.md): two real vLLMs
 * on CPUs, and a stream that the one which decodes has at work meanwhile. Each prompt is asked for whole and through
 * both, in turns.
 */
const { rounds: ROUNDS } = commandLine(
  'node bench/prefill.ts',
  'measures what it costs and brings that another engine prefills a prompt, over two real vLLMs on the CPU',
)
  .option('--rounds <count>', 'pairs of whole and split prompts', wholeFrom(1), 7)
  .parse()
  .opts<{ rounds: number }>();
const LENGTHS = [256, 512, 1024, 2048, 4096, 7168];
const CONNECTOR = { kv_connector: 'NixlConnector', kv_role: 'kv_both', kv_load_failure_policy: 'recompute' };

interface Timed {
  firstTokenMs: number;
  /** The longest time that the other stream had no token. */
  pauseMs: number;
}

const vllm = await ensureVllm();
const PYTHONPATH = await ensureNixl(vllm);
const engines: Child[] = [];
const [prefiller, decoder] = await Promise.all([start('prefills'), start('decodes')]);

async function start(name: string): Promise<string> {
  const port = String(await freePort());
  const args = [
    ...['serve', vllm.modelDir, ...TINY_MODEL_ARGS, '--max-model-len', '8192', '--port', port],
    ...['--served-model-name', 'tiny', '--kv-transfer-config', JSON.stringify(CONNECTOR)],
  ];
  const sideChannel = {
    VLLM_NIXL_SIDE_CHANNEL_HOST: '127.0.0.1',
    VLLM_NIXL_SIDE_CHANNEL_PORT: String(await freePort()),
  };
  // Threads that wait for each other sleep: two engines have more of them than the machine may have processors.
  const env = { OMP_WAIT_POLICY: 'PASSIVE', ...process.env, ...vllm.env, PYTHONPATH, ...sideChannel };
  const engine = startProcess(vllm.vllmCommand, args, { env, name });
  engines.push(engine);
  await engine.waitForLine(/Application startup complete/, 1_200_000);
  return `http://127.0.0.1:${port}`;
}

let asked = 0;

/** Another prompt each time, so that no cache has any of it. */
function bodyOf(tokens: number): string {
  asked += 1;
  const prompt = Array.from({ length: tokens }, (_, at) => 20 + ((at * 7 + asked * 13 + (at >> 4)) % 400));
  return JSON.stringify({ model: 'tiny', prompt, stream: true, max_tokens: 4, ignore_eos: true });
}

function send(url: string, { path, body, signal }: EngineCall): Promise<Response> {
  const headers = { 'content-type': 'application/json' };
  return fetch(url + path, { method: 'POST', headers, body: String(body), signal });
}

async function firstToken(body: string, through: 'one' | 'both'): Promise<number> {
  const signal = AbortSignal.timeout(120_000);
  const call: EngineCall = { method: 'POST', path: '/v1/completions', body, signal };
  const from = performance.now();
  let decoded = call;
  if (through === 'both') {
    const request = { call, body, tokens: 0, isStream: true };
    const prefill = readPrefill(await (await send(prefiller, prefillCall(request, signal))).text());
    if (prefill === null) throw new Error('the prefill engine names no blocks');
    decoded = decodeCall(request, prefill, signal);
  }
  const answer = await send(decoder, decoded);
  let ms: number | null = null;
  for await (const piece of answer.body!) {
    if (Buffer.from(piece).includes('"error"')) throw new Error(Buffer.from(piece).toString());
    ms ??= performance.now() - from;
  }
  return ms!;
}

async function timed(tokens: number, through: 'one' | 'both'): Promise<Timed> {
  const ended = new AbortController();
  const other = {
    model: 'tiny',
    prompt: [30 + (asked % 50), 31],
    stream: true,
    max_tokens: 8000,
    ignore_eos: true,
  };
  const call = { method: 'POST', path: '/v1/completions', body: JSON.stringify(other), signal: ended.signal };
  const { body } = await send(decoder, call);
  const times: number[] = [];
  const read = (async () => {
    for await (const _ of body!) times.push(performance.now());
  })().catch(() => {});
  while (times.length < 20) await new Promise((done) => setTimeout(done, 5));
  const first = times.length - 1;
  const firstTokenMs = await firstToken(bodyOf(tokens), through);
  ended.abort();
  await read;
  const during = times.slice(first);
  return { firstTokenMs, pauseMs: Math.max(...during.slice(1).map((time, at) => time - during[at]!)) };
}

function median(numbers: number[]): number {
  return numbers.sort((one, other) => one - other)[numbers.length >> 1]!;
}

const ms = (list: Timed[], name: keyof Timed) => median(list.map((one) => one[name]));

console.log(
  '| tokens of the prompt | first token, ms: whole | through both | longest pause of another stream, ms: whole | through both |',
);
console.log('| --- | --- | --- | --- | --- |');
try {
  // The first hand-over between two engines takes seconds.
  for (const through of ['both', 'one'] as const) await timed(2048, through);
  for (const tokens of LENGTHS) {
    const [one, both]: [Timed[], Timed[]] = [[], []];
    for (let round = 0; round < ROUNDS; round++) {
      one.push(await timed(tokens, 'one'));
      both.push(await timed(tokens, 'both'));
    }
    const cells = (name: keyof Timed) => [one, both].map((list) => ms(list, name).toFixed(0)).join(' | ');
    console.log(`| ${tokens} | ${cells('firstTokenMs')} | ${cells('pauseMs')} |`);
  }
} finally {
  await Promise.all(engines.map((engine) => engine.stop()));
}
