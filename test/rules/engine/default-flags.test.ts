import { expect, it } from 'vitest';
import { tracingFlags } from '../../../src/engine/command/default-flags.ts';
import { fastdeploy } from '../../../src/engine/kinds/fastdeploy.ts';
import { vllm } from '../../../src/engine/kinds/vllm.ts';

const FLAG = '--otlp-traces-endpoint';
const BASE = 'OTEL_EXPORTER_OTLP_ENDPOINT';
const WHOLE = 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT';
const PROTOCOL = 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL';

it.each([
  [{}, null, undefined],
  [{ [BASE]: 'http://c:4318/' }, 'http://c:4318/v1/traces', 'http/protobuf'],
  [{ [WHOLE]: 'http://c:4318/x' }, 'http://c:4318/x', 'http/protobuf'],
  [{ [BASE]: 'http://c:4317', [PROTOCOL]: 'grpc' }, 'http://c:4317', undefined],
  [{ [BASE]: 'http://c:4318', OTEL_TRACES_EXPORTER: 'none' }, null, undefined],
])('with %j vLLM sends its spans to %j', (env, url, protocol) => {
  const said = tracingFlags(vllm, [], env);
  expect(said.arguments.map(({ words }) => words)).toEqual(url === null ? [] : [[FLAG, url]]);
  expect(said.env[PROTOCOL]).toBe(protocol);
});

it('leaves a flag of the user’s, and engines that make no spans, alone', () => {
  const env = { [BASE]: 'http://c:4318' };
  const own = { words: [FLAG, 'grpc://mine'], flag: FLAG, from: 'VLLM_EXTRA_ARGS' };
  expect(tracingFlags(vllm, [own], env)).toEqual({ arguments: [], env: {} });
  expect(tracingFlags(fastdeploy, [], env)).toEqual({ arguments: [], env: {} });
});
