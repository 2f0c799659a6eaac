import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, describe, expect, it } from 'vitest';
import { createEngineClient } from '../../src/engine/client/client.ts';
import { describeEngine } from '../../src/engine/kinds/index.ts';
import { startSimulator } from '../../src/simulator/index.ts';
import { startPlainServer } from '../support/plain-openai-server.ts';
import { freePort } from '../support/ports.ts';
import { type Child, startProcess, stopAllProcesses } from '../support/processes.ts';
import { roadContract } from './road-contract.ts';

const PACE = { servedModelName: ['tiny'], interTokenLatencyMs: 2 };

describe('the simulator in the dialect of vLLM', () => {
  roadContract('vllm', async () => {
    const simulator = await startSimulator(PACE);
    return { url: simulator.url, stop: () => simulator.close() };
  });
});

describe('a plain OpenAI server without /health', () => {
  roadContract('external', startPlainServer, { metrics: true });
});

describe('the simulator in the dialect of SGLang', () => {
  roadContract('sglang', async () => {
    const port = await freePort();
    const { program, args } = describeEngine('sglang').command!({
      model: 'tiny',
      host: '127.0.0.1',
      port,
      extraArgs: ['--inter-token-latency-ms', '2'],
      serveCommand: [process.execPath, 'src/simulator/main.ts', '--dialect', 'sglang'],
    });
    const child = startProcess(program, args, { name: 'sglang' });
    await child.waitForLine(/fired up and ready to roll/);
    return { url: `http://127.0.0.1:${port}`, stop: () => child.stop() };
  });
});

describe('the simulator in the dialect of FastDeploy', () => {
  roadContract('fastdeploy', async () => {
    const { url, child } = await startFastDeploy('--inter-token-latency-ms', '2');
    return { url, stop: () => child.stop() };
  });
  afterAll(stopAllProcesses);

  const probe = async (url: string) => {
    const client = createEngineClient({ baseUrl: url, engine: describeEngine('fastdeploy') });
    const answer = await client.probe(60_000);
    await client.close();
    return answer;
  };

  it('is unhealthy by its 404, and by its 304 once its workers are dead', async () => {
    const { url } = await startFastDeploy('--fault', 'die_after_tokens=3');
    await control(url, { unhealthy: true });
    expect((await fetch(`${url}/health`)).status).toBe(404);
    expect(await probe(url)).toBe('unhealthy');
    await control(url, { unhealthy: false });
    expect(await probe(url)).toBe('healthy');
    const died = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"prompt":"x","max_tokens":9,"ignore_eos":true}',
    });
    expect(died.status).toBe(500);
    expect((await fetch(`${url}/health`)).status).toBe(304);
    expect(await probe(url)).toBe('unhealthy');
  });

  it('refuses over its concurrency with 429, blames itself for the caller’s faults, and exits 0 when it cannot start', async () => {
    const { url } = await startFastDeploy('--max-concurrency', '0');
    const chat = (body: object) =>
      fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
    const full = await chat({ messages: [{ role: 'user', content: 'x' }] });
    expect([full.status, await full.json()]).toEqual([429, { detail: 'Too many requests' }]);
    const wrong = await chat({ messages: 'x' });
    expect([wrong.status, await wrong.json()]).toMatchObject([500, { detail: { object: 'error' } }]);
    const failing = await spawnFastDeploy('--fault', 'start_failure=true');
    expect((await failing.child.exited).code).toBe(0);
  });
});

describe('an engine with an unreachable metrics port', () => {
  it('is asked again next time: no gauges are no failure', async () => {
    const server = createServer((_, response) => response.end());
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const engine = { ...describeEngine('fastdeploy'), metricsPort: () => 1 };
    const client = createEngineClient({ baseUrl: `http://127.0.0.1:${port}`, engine });
    expect(await client.gauges()).toBeNull();
    await client.close();
    server.close();
  });
});

/** Started by the command of its description, so that ports and flags are the road's own. */
async function spawnFastDeploy(...args: string[]): Promise<{ url: string; child: Child }> {
  const port = await freePortPair();
  const command = describeEngine('fastdeploy').command?.({
    model: 'tiny',
    host: '127.0.0.1',
    port,
    extraArgs: args,
    serveCommand: [process.execPath, 'src/simulator/main.ts', '--dialect', 'fastdeploy'],
  });
  if (!command) throw new Error('FastDeploy has a command');
  const child = startProcess(command.program, command.args, { name: 'fastdeploy' });
  return { url: `http://127.0.0.1:${port}`, child };
}

/** A free port whose next one is free too: there are the metrics. */
async function freePortPair(): Promise<number> {
  for (;;) {
    const port = await freePort();
    const next = createServer().listen(port + 1, '127.0.0.1');
    const isFree = await once(next, 'listening').then(
      () => true,
      () => false,
    );
    next.close();
    if (isFree) return port;
  }
}

async function startFastDeploy(...args: string[]): Promise<{ url: string; child: Child }> {
  const started = await spawnFastDeploy(...args);
  await started.child.waitForLine(/Launching chat completion service/);
  return started;
}

async function control(url: string, faults: object): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  await fetch(`${url}/simulator/faults`, { method: 'POST', body: JSON.stringify(faults), headers });
}
