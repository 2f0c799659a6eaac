import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import type { ClientsInstall } from '../../scripts/clients/setup.ts';
import type { VllmInstall } from '../../scripts/vllm/setup.ts';
import { ranScript } from '../support/client-scripts.ts';
import { EXPECTED, EXPECTED_OF_AN_ENGINE, installExamples, runExample } from '../support/examples.ts';
import { clientForNode } from '../support/node-responses.ts';
import { responsesSeen } from '../support/responses-seen.ts';

/** Arguments of the engine without which it calls no tools. */
export const TOOL_ARGS = ['--enable-auto-tool-choice', '--tool-call-parser', 'hermes'];

/** Other people's clients over a road to the real engine: the examples, and vLLM's own commands. */
export function clientsOverVllm(road: () => { vllm: VllmInstall; queueUrl: string }): void {
  let clients: ClientsInstall;

  beforeAll(async () => {
    clients = await installExamples();
  });

  const command = async (...args: string[]) => {
    const { vllm } = road();
    const { stdout } = await promisify(execFile)(vllm.vllmCommand, args, {
      env: { ...process.env, ...vllm.env, NO_PROXY: '*', no_proxy: '*', OPENAI_API_KEY: 'none' },
    });
    return stdout;
  };

  clientForNode(() => road().queueUrl, 'incomplete');

  describe('others’ clients over real vLLM', () => {
    // A model of random weights says anything: that something is said is for the simulator's tier to see.
    const words = Object.entries({ ...EXPECTED, ...EXPECTED_OF_AN_ENGINE });
    it.each(words)('the example %s runs', async (name, expected) => {
      const lenient = expected.map(
        ({ source, flags }) => new RegExp(source.replace(': +\\S', ':'), `${flags}s`),
      );
      await runExample(clients, name, road().queueUrl, lenient);
    });

    it('OpenAI’s Python client calls tools, gets JSON of a schema, streams and aborts', async () => {
      const seen = await ranScript(clients.python, 'openai_client.py', road().queueUrl, 'tiny', '--tools');
      expect(seen).toMatchObject({
        chat: { tokens: expect.any(Number) },
        stream: seen.chat,
        request_id: 'req-of-python',
        unknown_model: [404, expect.anything()],
        bad_request: 400,
        tool: 'weather',
        structured: '{',
      });
    });

    it.each(Object.entries(responsesSeen('incomplete')))(
      'OpenAI’s Python client uses responses: %s',
      async (part, expected) => {
        const args = [road().queueUrl, 'tiny', part, '--limited'];
        expect(await ranScript(clients.python, 'openai_responses.py', ...args)).toEqual(expected);
      },
    );

    it('Anthropic’s Python client streams what it gets whole', async () => {
      expect(await ranScript(clients.python, 'anthropic_client.py', road().queueUrl, 'tiny')).toMatchObject({
        same_text: true,
        stop: true,
        count: true,
        unknown_model: [404, 'error', 'not_found_error'],
      });
    });

    it('RunPod’s form answers, with tokens and usage as those of 2.x', async () => {
      const response = await fetch(`${road().queueUrl}/v2/default/runsync`, {
        method: 'POST',
        body: JSON.stringify({
          input: { prompt: 'Hello', sampling_params: { max_tokens: 8, temperature: 0, ignore_eos: true } },
        }),
      });
      expect(await response.json()).toMatchObject({
        status: 'COMPLETED',
        output: [{ choices: [{ tokens: [expect.any(String)] }], usage: { output: 8 } }],
      });
    });

    it('vllm bench serve runs without naming the model', async () => {
      const out = await command(
        ...['bench', 'serve', '--backend', 'openai-chat', '--base-url', road().queueUrl],
        ...[
          '--endpoint',
          '/v1/chat/completions',
          '--dataset-name',
          'random',
          '--tokenizer',
          road().vllm.modelDir,
        ],
        ...['--random-input-len', '16', '--random-output-len', '8', '--num-prompts', '8'],
      );
      expect(out).toMatch(/Successful requests: +8\b/);
    });

    it('vllm chat answers', async () => {
      const out = await command('chat', '--url', `${road().queueUrl}/v1`, '--quick', 'Say hello.');
      expect(out).toContain('Using model: tiny');
    });
  });
}
