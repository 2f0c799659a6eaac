import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ClientsInstall, ensureClients } from '../../scripts/clients/setup.ts';
import { SNIPPETS } from '../../src/dashboard/views/snippets.ts';
import { type ChatRequest, requestOf, USUAL, userMessage } from '../../src/dashboard/views/try-request.ts';
import { type QueueProcess, readyWorker, startQueue, tearDown } from '../support/road.ts';

/** What the page shows under "The same elsewhere", run as it is over the road with the simulator. */
let clients: ClientsInstall;
let queue: QueueProcess;
let folder: string;

beforeAll(async () => {
  clients = await ensureClients();
  folder = mkdtempSync(join(tmpdir(), 'worker-vllm-try-'));
  symlinkSync(join(clients.node, 'node_modules'), join(folder, 'node_modules'));
  queue = await startQueue();
  await readyWorker(queue.url, 'w');
});
afterAll(async () => {
  await tearDown();
  rmSync(folder, { recursive: true, force: true });
});

const TOOLS = JSON.stringify([
  {
    type: 'function',
    function: {
      name: 'get_weather',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, additionalProperties: false },
    },
  },
]);
/** A pixel. */
const IMAGE =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=';
const ODD = 'It\'s "odd": \\ $HOME `id` %s\n{"a": null} é 漢字 🙂 \u2028 END';
const FEW = { ...USUAL, max_tokens: '12', seed: '7' };

const BODIES: Record<string, ChatRequest> = {
  streamed: requestOf('tiny', [userMessage('Say hello.', '')], FEW),
  whole: requestOf('tiny', [userMessage('Say hello.', '')], { ...FEW, stream: false }),
  'with every parameter': requestOf('tiny', [userMessage('Say hello.', '')], {
    ...FEW,
    system: 'You are terse.',
    temperature: '0.5',
    top_p: '0.9',
    presence_penalty: '0.1',
    frequency_penalty: '-0.1',
    stop: 'END\nSTOP',
  }),
  'with text that would break quotes': requestOf('tiny', [userMessage(ODD, '')], { ...FEW, system: ODD }),
  'with a text too long for an argument': requestOf('tiny', [userMessage('word '.repeat(20_000), '')], {
    ...FEW,
    stream: false,
  }),
};

const run = async (program: string, args: string[]): Promise<string> => {
  // A proxy of the environment must not come between.
  const env = { ...process.env, NO_PROXY: '*', no_proxy: '*' };
  return (await promisify(execFile)(program, args, { cwd: folder, env })).stdout;
};

/** The answer's text as curl prints it: JSON, or events. */
function textOf(printed: string): string {
  const answers = printed.includes('data: ')
    ? [...printed.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => json!)
    : [printed];
  return answers
    .map((json) => {
      const { choices, error } = JSON.parse(json) as {
        choices: { delta?: { content?: string }; message?: { content?: string } }[];
        error?: { message: string };
      };
      if (error) throw new Error(error.message);
      return choices[0]?.delta?.content ?? choices[0]?.message?.content ?? '';
    })
    .join('');
}

/** What each program printed, or the error that it ended with. */
async function runAll(body: ChatRequest): Promise<string[]> {
  const target = { baseUrl: `${queue.url}/v1`, asksForToken: false };
  const runs = [
    { language: 'curl', file: 'try.sh', program: 'bash' },
    { language: 'python', file: 'try.py', program: clients.python },
    { language: 'javascript', file: 'try.mjs', program: process.execPath },
  ];
  return await Promise.all(
    runs.map(({ language, file, program }) => {
      writeFileSync(join(folder, file), SNIPPETS[language]!.of(target, body));
      return run(program, [file]).catch(({ message }: Error) => message);
    }),
  );
}

it.each(Object.entries(BODIES))(
  'gets the same answer by curl, Python and JavaScript, %s',
  async (_, body) => {
    const [curl, python, javascript] = await runAll(body);
    const text = textOf(curl!);
    expect(text.length).toBeGreaterThan(10);
    expect(python!.trimEnd()).toBe(text.trimEnd());
    expect(javascript!.trimEnd()).toBe(text.trimEnd());
  },
);

it.each([true, false])('sends tools from each, streamed: %s', async (stream) => {
  const body = requestOf('tiny', [userMessage('Say hello.', '')], { ...FEW, tools: TOOLS, stream });
  // The engine here takes none, and says so of a request that has them.
  for (const printed of await runAll(body))
    expect(printed).toMatch(/auto\\?" tool choice requires --enable-auto-tool-choice/);
});

it('sends the same image from each, and takes the token from the environment', async () => {
  const body = requestOf('tiny', [userMessage('What is this?', IMAGE)], FEW);
  const target = { baseUrl: 'https://example.com/v1', asksForToken: true };
  for (const { of } of Object.values(SNIPPETS)) {
    expect(of(target, body)).toContain(IMAGE);
    expect(of(target, body)).toMatch(/\$TOKEN|environ\["TOKEN"\]|process\.env\.TOKEN/);
  }
});
