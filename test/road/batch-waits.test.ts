import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, expect, it } from 'vitest';
import { printed, writeFleet } from '../support/fleet-road.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { stopAllProcesses } from '../support/processes.ts';
import { cli, stateFolder, tearDown } from '../support/road.ts';

/** A batch on a pool that is scaled to zero, as an operator meets it. */
afterEach(stopAllProcesses);
afterAll(tearDown);

function line(custom_id: string): string {
  const body = { model: 'tiny', max_tokens: 4, messages: [{ role: 'user', content: custom_id }] };
  return JSON.stringify({ custom_id, method: 'POST', url: '/v1/chat/completions', body });
}

it('says everywhere what it waits for, until when and how to begin now, and begins when it is told to', {
  timeout: 240_000,
}, async () => {
  const [stateDir, port] = [stateFolder(), await freePort()];
  const url = `http://127.0.0.1:${port}`;
  const path = join(stateFolder(), 'fleet.yaml');
  writeFleet(path, { pools: { demo: { max: 2 } } });
  const up = cli(['up', '--fleet', path, '--port', String(port), '--state', stateDir]);
  await up.waitForLine(/Workers start when requests come/);

  const input = join(stateFolder(), 'in.jsonl');
  writeFileSync(input, Array.from({ length: 20 }, (_, n) => line(`line-${n}`)).join('\n'));
  const run = cli(['batch', 'run', input, '--url', url]);
  await run.waitForLine(
    /^Waits because 20 lines of batches are too little work .*\(until .+\)\. "worker-vllm fleet launch demo" starts a worker now\.$/,
  );
  await up.waitForLine(
    /^demo: 0 workers wanted: 20 lines of batches wait, .* "worker-vllm fleet launch demo"/,
  );
  expect(await printed(['top', '--url', url])).toMatch(
    /^Serving .*Scaled to zero: demo: 20 lines of batches are too little work/m,
  );
  const job = ['submit', '--trace', '--url', url, '--wait', '0', '--model', 'tiny', 'Say hello.'];
  expect(await printed(['fleet', 'status', '--url', url])).toMatch(/^demo +0 +0 +0 /m);

  await printed(['fleet', 'launch', 'demo', '--url', url]);
  await run.waitForLine(/^Waits because a worker is being started/);
  expect(await printed(job)).toMatch(/^ {2}Waits because |dispatched/m);
  await until(async () => /^demo +1 +1 /m.test(await printed(['fleet', 'status', '--url', url])), 'one', {
    timeoutMs: 90_000,
    everyMs: 500,
  });
  expect((await run.exited).code).toBe(0);
  expect(run.output()).toContain('20 of 20 lines succeeded');
});
