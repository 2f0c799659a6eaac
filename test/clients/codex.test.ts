import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ClientsInstall, ensureClients } from '../../scripts/clients/setup.ts';
import { RecordingProxy } from '../support/recording-proxy.ts';
import {
  cleanEnvironment,
  type QueueProcess,
  readyWorker,
  startQueue,
  stateFolder,
  tearDown,
} from '../support/road.ts';

/** Codex, unmodified: the program that a model drives by its answers, here those of a script. */
const PATCH = `apply_patch <<'EOF'
*** Begin Patch
*** Add File: notes.txt
+patched
*** End Patch
EOF`;
const SCRIPT = [
  {
    reasoning: 'I have to look first.',
    calls: [{ name: 'exec_command', arguments: { cmd: 'echo $((6 * 7)) > made.txt; cat made.txt' } }],
  },
  { text: 'Now a patch.', calls: [{ name: 'exec_command', arguments: { cmd: PATCH } }] },
  { text: 'Both files are there.' },
];

/** The fields that Codex sends. */
const FIELDS = [
  ...[
    'client_metadata',
    'include',
    'input',
    'instructions',
    'model',
    'parallel_tool_calls',
    'prompt_cache_key',
  ],
  ...['reasoning', 'store', 'stream', 'tool_choice', 'tools'],
];

let clients: ClientsInstall;
let queue: QueueProcess;
let proxy: RecordingProxy;
let proxyUrl: string;

beforeAll(async () => {
  clients = await ensureClients();
  queue = await startQueue();
  const script = join(stateFolder(), 'script.json');
  writeFileSync(script, JSON.stringify(SCRIPT));
  await readyWorker(queue.url, 'w', { engineArgs: `--inter-token-latency-ms 2 --script ${script}` });
  proxy = new RecordingProxy(queue.url);
  proxyUrl = await proxy.listen();
});
afterAll(async () => {
  proxy?.close();
  await tearDown();
});

interface CodexEvent {
  type: string;
  item?: { type: string; aggregated_output?: string; exit_code?: number; text?: string };
}

interface Session {
  work: string;
  events: CodexEvent[];
  log: string;
}

/** Runs one session to its end. @param more lines of the provider's configuration */
async function session(url: string, more = ''): Promise<Session> {
  const home = stateFolder();
  const work = join(home, 'work');
  mkdirSync(work);
  writeFileSync(
    join(home, 'config.toml'),
    `model = "tiny"
model_provider = "queue"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.queue]
name = "queue"
base_url = "${url}/v1"
wire_api = "responses"
${more}
`,
  );
  const flags = ['--json', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', '-C', work];
  const codex = spawn(join(clients.node, 'node_modules/.bin/codex'), ['exec', ...flags, 'Make the files.'], {
    env: cleanEnvironment({ CODEX_HOME: home, RUST_LOG: 'codex_api=info', NO_PROXY: '*', no_proxy: '*' }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [out, errors, [code]] = await Promise.all([
    text(codex.stdout),
    text(codex.stderr),
    once(codex, 'exit'),
  ]);
  expect(code, `${out}${errors}`).toBe(0);
  const lines = out.trim().split('\n');
  return { work, log: errors, events: lines.map((line) => JSON.parse(line) as CodexEvent) };
}

function expectBothFiles(work: string, events: CodexEvent[]): void {
  expect(readFileSync(join(work, 'made.txt'), 'utf8')).toBe('42\n');
  expect(readFileSync(join(work, 'notes.txt'), 'utf8')).toBe('patched\n');
  const items = events.filter(({ type }) => type === 'item.completed').map(({ item }) => item!);
  expect(items).toContainEqual(
    expect.objectContaining({ type: 'command_execution', aggregated_output: '42\n', exit_code: 0 }),
  );
  expect(items.at(-1)).toMatchObject({ type: 'agent_message', text: 'Both files are there.' });
  expect(events.at(-1)).toMatchObject({ type: 'turn.completed' });
}

// Codex itself always sends false; the proxy sets true, as a version does that asks for it.
describe.each([false, true])('Codex, with "store": %s', (store) => {
  it('runs the command and the patch that the model asks for, and ends with its last words', async () => {
    const before = proxy.seen.length;
    proxy.set = store ? { store } : {};
    const { work, events } = await session(proxyUrl);
    expectBothFiles(work, events);
    const turns = proxy.seen.slice(before).filter(({ path }) => path === '/v1/responses');
    expect(turns).toHaveLength(3);
    for (const { status, body, answer } of turns) {
      expect(status).toBe(200);
      const asked = JSON.parse(body) as Record<string, unknown>;
      expect(FIELDS).toEqual(expect.arrayContaining(Object.keys(asked)));
      expect(asked).toMatchObject({ store, stream: true });
      const [, id] = /"id":"(resp_[^"]+)"/.exec(answer)!;
      const kept = await fetch(`${queue.url}/v1/responses/${id}`);
      expect(kept.status).toBe(store ? 200 : 404);
    }
  });
});

it('Codex does the same on a WebSocket', async () => {
  const { work, events, log } = await session(queue.url, 'supports_websockets = true');
  expect(log).toContain('connected to Responses WebSocket');
  expectBothFiles(work, events);
});
