import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { findOldNode } from '../support/old-node.ts';
import { freePort } from '../support/ports.ts';
import { type Child, startProcess } from '../support/processes.ts';
import { cleanEnvironment, stateFolder, tearDown } from '../support/road.ts';

/**
 * The lines of the README, and the programs of docs/jobs.md, in a fresh clone, as they stand there, on the oldest Node that a clone may start with where this
 * machine has one. Only the port is another.
 */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const README = readFileSync(join(ROOT, 'README.md'), 'utf8');
/** Where the README sends programs. */
const JOBS = readFileSync(join(ROOT, 'docs/jobs.md'), 'utf8');
const clone = join(stateFolder(), 'worker-vllm');
let port: number;
let road: Child;

/** Lines that are not run here, and why. */
const ELSEWHERE: Record<string, string> = {
  'npm ci && npm test': 'this is one of them',
  'CASOLA_WS_URL=wss://queue.example.com': 'names machines of its reader; commands.test.ts runs supervise',
};
const run = new Set<string>();

beforeAll(async () => {
  const files = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  for (const file of files.split('\0').filter(Boolean)) {
    mkdirSync(dirname(join(clone, file)), { recursive: true });
    cpSync(join(ROOT, file), join(clone, file), { force: true });
  }
  port = await freePort();
});
afterAll(tearDown);

/** Types a command of the README. @param start how it begins there */
function type(start: string): Child {
  const command = commandsOf(README).find((line) => line.startsWith(start));
  if (command === undefined) throw new Error(`README.md has no line "${start}"`);
  run.add(command);
  return shell(command);
}

function shell(command: string): Child {
  const inherited = Object.entries(cleanEnvironment()).filter(([name]) => !/^npm_|^PATH$/i.test(name));
  const node = dirname(findOldNode() ?? process.execPath);
  const path = [node, ...process.env.PATH!.split(':').filter((folder) => !folder.includes('node_modules'))];
  const here = { PATH: path.join(':'), QUEUE_PORT: String(port), QUEUE_URL: `http://127.0.0.1:${port}` };
  return startProcess('sh', ['-c', atPort(command)], {
    cwd: clone,
    env: { ...Object.fromEntries(inherited), ...here },
    name: command,
  });
}

const atPort = (text: string) =>
  text.replaceAll('127.0.0.1:8788', `127.0.0.1:${port}`).replace('--port 8788', '');

async function output(command: Child): Promise<string> {
  const { code } = await command.exited;
  expect(code, command.output()).toBe(0);
  return command.output();
}

/** Runs the block of JavaScript that contains a text, with what the page leaves to its reader. */
async function program(page: string, text: string, before = '', after = ''): Promise<string> {
  const block = blocksOf(page, 'js').find((code) => code.includes(text));
  if (block === undefined) throw new Error(`There is no program with "${text}"`);
  writeFileSync(join(clone, 'program.mjs'), `${before}\n${atPort(block)}\n${after}`);
  return await output(shell('npx node program.mjs'));
}

function blocksOf(text: string, language: string): string[] {
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(([, code]) => code!);
}

/** Commands of all blocks for a shell, without their comments, those over several lines as one. */
function commandsOf(text: string): string[] {
  const lines = blocksOf(text, 'bash').flatMap((code) =>
    code
      .trimEnd()
      .replaceAll(/ +# .*$/gm, '')
      .split('\n'),
  );
  return lines.reduce<string[]>((commands, line) => {
    const last = commands.at(-1);
    const isOpen = last !== undefined && (last.endsWith('\\') || (last.split("'").length - 1) % 2 === 1);
    if (isOpen) commands[commands.length - 1] = `${last}\n${line}`;
    else commands.push(line);
    return commands;
  }, []);
}

async function stop(command: Child): Promise<void> {
  process.kill(-command.pid, 'SIGINT');
  await command.exited;
}

it('npm ci && npm start', async () => {
  road = type('npm ci && npm start');
  await road.waitForLine(/^Ready: /, 900_000);
}, 920_000);

it('requests', async () => {
  expect(await output(type('curl http://127.0.0.1:8788/v1/chat/completions'))).toContain('"choices"');
  expect((await program(README, "from 'openai'")).length).toBeGreaterThan(10);
  expect(await output(type('curl http://127.0.0.1:8788/api/jobs'))).toContain('job-123');
  expect(await output(type("curl 'http://127.0.0.1:8788/api/jobs/job-123?wait=60'"))).toContain('succeeded');
});

it('jobs and batches by command', async () => {
  const messages = [{ role: 'user', content: 'Hi.' }];
  const body = { model: 'default', messages };
  const line = { custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body };
  writeFileSync(join(clone, 'prompts.jsonl'), JSON.stringify({ messages }));
  writeFileSync(join(clone, 'requests.jsonl'), JSON.stringify(line));
  await output(type('npx worker-vllm submit --trace'));
  await output(type('npx worker-vllm submit prompts.jsonl'));
  expect(readFileSync(join(clone, 'prompts.results.jsonl'), 'utf8')).toContain('succeeded');
  await output(type('npx worker-vllm batch run requests.jsonl'));
  expect(readFileSync(join(clone, 'requests.output.jsonl'), 'utf8')).toContain('"custom_id":"a"');
  await output(type('npx worker-vllm usage'));
  expect(readFileSync(join(clone, 'usage.csv'), 'utf8')).toMatch(/^kind,day,/m);
  const top = type('npx worker-vllm top');
  await top.waitForLine(/ready/);
  await stop(top);
});

it('examples that need nothing more than the clone', async () => {
  for (const name of ['openai-node', 'batch-node']) await output(example(name));
  const tools = example('openai-tools');
  expect((await tools.exited).code).toBe(1);
  expect(tools.output()).toMatch(
    /^400: .*--tool-call-parser to be set\nvLLM calls tools with VLLM_EXTRA_ARGS=/,
  );
});

const example = (name: string) =>
  shell(`WORKER_VLLM_URL=http://127.0.0.1:8788 npx node examples/${name}.mjs`);

it('jobs by program, once the clone is built as docs/jobs.md says', async () => {
  await output(shell('npm run build'));
  expect(await program(JOBS, 'new JobClient', '', 'console.log(job.state);')).toBe('succeeded\n');
  const payload = `{ messages: [{ role: 'user', content: 'Hi.' }] }`;
  const source = `const source = Array.from({ length: 3 }, () => ({ job_type: 'chat_completion', payload: ${payload} }));`;
  await program(JOBS, 'new JobConnection', source, 'process.exit();');
  expect(await output(example('submit-jobs'))).toMatch(/^(?:\S+ succeeded .*\n){5}$/);
});

it('a queue with tokens', async () => {
  await stop(road);
  for (const scope of ['worker', 'submit'])
    await output(type(`npx worker-vllm token create --scope ${scope}`));
  const queue = type('npx worker-vllm queue');
  await queue.waitForLine(/listening at/);
  expect((await fetch(`http://127.0.0.1:${port}/v1/models`)).status).toBe(401);
  await stop(queue);
});

it('a fleet', async () => {
  writeFileSync(join(clone, 'fleet.yaml'), blocksOf(README, 'yaml').find((text) => text.includes('pools:'))!);
  expect(await output(shell('npx worker-vllm fleet check fleet.yaml'))).toContain('llama-8b');
  const fleet = type('npm start -- --fleet examples/fleet.yaml');
  await fleet.waitForLine(/Dashboard: /);
  await stop(fleet);
});

it('there is no other line', () => {
  const rest = commandsOf(README).filter((command) => !run.has(command));
  const isElsewhere = (command: string) => Object.keys(ELSEWHERE).some((start) => command.startsWith(start));
  expect(rest.filter((command) => !isElsewhere(command))).toEqual([]);
});
