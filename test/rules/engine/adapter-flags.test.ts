import { describe, expect, test } from 'vitest';
import { adapterFlags, adapterRoom, refuseSharedNames } from '../../../src/engine/command/default-flags.ts';
import { readWorkerConfiguration } from '../../../src/worker/configuration.ts';

describe('what an engine is told of adapters', () => {
  test('nothing without any', () => {
    expect(adapterFlags(0)).toEqual({ arguments: [], env: {} });
  });

  test('a place for each, four at most, and that they may come while it runs', () => {
    const words = (count: number) => adapterFlags(count).arguments.flatMap(({ words }) => words);
    expect(words(2)).toEqual(['--enable-lora', '--max-loras', '2']);
    expect(words(9)).toEqual(['--enable-lora', '--max-loras', '4']);
    expect(adapterFlags(2).env).toEqual({ VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True' });
  });

  test.each([
    [['--enable-lora', '--max-loras', '2'], 2],
    [['--enable-lora', '--max-loras=2', '--max-cpu-loras', '8'], 8],
    [['--enable-lora'], 1],
    [[], 4],
  ])('and how many it then has loaded at once: %j', (args, room) => {
    expect(adapterRoom(args)).toBe(room);
  });
});

describe('an adapter with a name that the engine has been given for something else', () => {
  const list = [{ name: 'sql', source: 'o/sql' }];
  const said = (...words: string[]) => [{ words, flag: words[0]!.split('=')[0]!, from: 'VLLM_EXTRA_ARGS' }];

  test.each([
    [['--served-model-name', 'tiny', 'sql']],
    [['--served-model-name=sql']],
    [['--lora-modules', 'legal=/a', 'sql=/b']],
    [['--lora-modules', '{"path": "/b", "name": "sql"}']],
  ])('is refused: %j', (words) => {
    expect(() => refuseSharedNames(list, said(...words))).toThrow(
      /the adapter "sql" has a name that --\S+ \(VLLM_EXTRA_ARGS\) gives to something else/,
    );
  });

  test.each([
    [['--served-model-name', 'sql-base']],
    [['--lora-modules', 'legal=sql']],
    [['--chat-template', 'sql']],
  ])('is none here: %j', (words) => {
    expect(() => refuseSharedNames(list, said(...words))).not.toThrow();
  });
});

describe('ENGINE_ADAPTERS', () => {
  const read = (list: unknown, more: NodeJS.ProcessEnv = {}) =>
    readWorkerConfiguration({
      CASOLA_WS_URL: 'ws://127.0.0.1:8788',
      CASOLA_CONFIG_ID: 'cfg',
      VLLM_MODEL: 'tiny',
      ENGINE_ADAPTERS: typeof list === 'string' ? list : JSON.stringify(list),
      ...more,
    }).engine.adapters;

  test('lists names with where they come from', () => {
    const list = [
      { name: 'sql', source: 'acme/llama-sql', revision: 'v2' },
      { name: 'legal', source: '/adapters/legal' },
    ];
    expect(read(list)).toEqual(list);
  });

  test.each([
    ['sql=acme/sql', /ENGINE_ADAPTERS=.*: expected a list such as \[.*\]: not JSON/],
    [[{ name: 'a', source: '../a' }], /expected an absolute path, or owner\/name/],
    [[{ name: 'a', source: 'o/a', revision: '../../etc' }], /expected a branch, a tag or a commit/],
    [
      [
        { name: 'a', source: 'o/a' },
        { name: 'a', source: 'o/b' },
      ],
      /expected each name once/,
    ],
    [[{ name: 'a', path: '/a' }], /source/],
  ])('that is wrong is an error that says how it is right: %j', (list, message) => {
    expect(() => read(list)).toThrow(message);
  });

  test.each([
    ['tiny', {}],
    ['cfg', {}],
    ['served', { VLLM_SERVED_MODEL_NAME: 'served' }],
  ])('that names one as the model or its pool, %s, is refused', (name, more) => {
    expect(() => read([{ name, source: 'o/a' }], more)).toThrow(
      new RegExp(`"${name}" is named as the model or its pool`),
    );
  });

  test('is refused for an engine that loads none', () => {
    expect(() => read([{ name: 'a', source: 'o/a' }], { ENGINE: 'fastdeploy' })).toThrow(
      /FastDeploy loads no adapters while it runs/,
    );
  });
});
