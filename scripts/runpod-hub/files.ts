import { whatBecameOf, whyOfNoUse } from '../../src/engine/command/flag-names.ts';
import { manifest } from '../../src/process/package.ts';
import { REFUSED } from './refused.ts';
import { GROUPS, HUB_SETTINGS, type HubSetting } from './settings.ts';

/** The files that are made of the table, by their paths. */
export function hubFiles(): Record<string, string> {
  return {
    '.runpod/hub.json': json(vllmHub()),
    '.runpod/tests.json': json(tests('MODEL_NAME', 'HuggingFaceTB/SmolLM2-135M-Instruct')),
    '.runpod/fastdeploy/hub.json': json(fastdeployHub()),
    '.runpod/fastdeploy/tests.json': json(tests('MODEL', 'PaddlePaddle/ERNIE-4.5-0.3B-Paddle')),
    'worker-config.json': json(workerConfig()),
    'docs/runpod-variables.md': variablesPage(),
  };
}

function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

const ICON = 'https://docs.vllm.ai/en/latest/assets/logos/vllm-logo-only-light.ico';

function vllmHub(): object {
  return {
    title: 'worker-vllm',
    description:
      'vLLM behind the endpoints of RunPod: no result lost, no second wasted, every token in its order',
    type: 'serverless',
    category: 'language',
    iconUrl: ICON,
    config: {
      runsOn: 'GPU',
      containerDiskInGb: 150,
      gpuIds: 'ADA_80_PRO,AMPERE_80',
      gpuCount: 1,
      allowedCudaVersions: ['13.0'],
      presets: [{ name: 'Qwen/Qwen3-8B', defaults: { MODEL_NAME: 'Qwen/Qwen3-8B' } }],
      env: HUB_SETTINGS.map(hubInput),
    },
  };
}

/** The settings of FastDeploy's form, without those for which it has no flag. */
const OF_FASTDEPLOY = new Set(
  `TOKENIZER TRUST_REMOTE_CODE QUANTIZATION MAX_MODEL_LEN GPU_MEMORY_UTILIZATION MAX_NUM_SEQS
   MAX_NUM_BATCHED_TOKENS BLOCK_SIZE ENABLE_PREFIX_CACHING ENABLE_CHUNKED_PREFILL TENSOR_PARALLEL_SIZE
   TOOL_CALL_PARSER REASONING_PARSER MODEL_REVISION CUSTOM_CHAT_TEMPLATE RUNPOD_OUTPUT BASE_PATH
   VLLM_STARTUP_TIMEOUT`.split(/\s+/),
);

function fastdeployHub(): object {
  const model: HubSetting = {
    ...HUB_SETTINGS[0]!,
    key: 'MODEL',
    description: 'Model, owner/name, or a folder of the container',
  };
  const jobs: HubSetting = { ...HUB_SETTINGS.find(({ key }) => key === 'MAX_CONCURRENCY')!, default: 512 };
  const shared = HUB_SETTINGS.filter(({ key }) => OF_FASTDEPLOY.has(key)).map(
    // FastDeploy has defaults of its own.
    ({ default: fallback, ...setting }) =>
      setting.here === 'flag' ? setting : { ...setting, default: fallback! },
  );
  return {
    title: 'worker-fastdeploy',
    description: 'FastDeploy behind the endpoints of RunPod',
    type: 'serverless',
    category: 'language',
    config: {
      runsOn: 'GPU',
      containerDiskInGb: 100,
      gpuIds: 'ADA_80_PRO,AMPERE_80',
      gpuCount: 1,
      presets: [
        {
          name: 'ERNIE 4.5 0.3B',
          defaults: { MODEL: 'PaddlePaddle/ERNIE-4.5-0.3B-Paddle', ENABLE_V1_KVCACHE_SCHEDULER: '1' },
        },
      ],
      env: [{ key: 'ENGINE', value: 'fastdeploy' }, ...[model, jobs, ...shared].map(hubInput)],
    },
  };
}

function hubInput({
  key,
  title,
  description,
  type,
  options,
  required,
  default: fallback,
}: HubSetting): object {
  const input = {
    ...{ name: title, type, description },
    ...(options && { options: options.map((value) => ({ label: value, value })) }),
    ...(fallback !== undefined && { default: fallback }),
    ...(required ? { required } : { advanced: true }),
  };
  return { key, input };
}

/** Returns the tests that the Hub runs on a release: a prompt, and a chat as OpenAI's clients ask. */
function tests(modelKey: string, model: string): object {
  const messages = [{ role: 'user', content: 'Say hello.' }];
  return {
    tests: [
      { name: 'prompt', input: { prompt: 'Hello', sampling_params: { max_tokens: 16 } }, timeout: 300_000 },
      {
        name: 'openai_route',
        input: { openai_route: '/v1/chat/completions', openai_input: { messages, max_tokens: 16 } },
        timeout: 300_000,
      },
    ],
    config: {
      gpuTypeId: 'NVIDIA A40',
      gpuCount: 1,
      env: [
        { key: modelKey, value: model },
        { key: 'MAX_MODEL_LEN', value: '2048' },
      ],
    },
  };
}

const FORM_TYPES = { string: 'text', huggingface: 'text', number: 'number', boolean: 'toggle' } as const;

function workerConfig(): object {
  const categories = GROUPS.map((title) => ({
    title,
    settings: HUB_SETTINGS.filter(({ group }) => group === title).map(({ key }) => key),
  }));
  const version = { imageName: `worker-vllm:${manifest.version}`, minimumCudaVersion: '13.0', categories };
  return {
    versions: { [manifest.version]: version },
    schema: Object.fromEntries(HUB_SETTINGS.map((setting) => [setting.key, formField(setting)])),
  };
}

function formField(setting: HubSetting): object {
  const { key, title, description, type, options, required = false, default: value = '' } = setting;
  return {
    ...{
      env_var_name: key,
      value,
      title,
      description,
      required,
      type: options ? 'select' : FORM_TYPES[type],
    },
    ...(options && { options: options.map((option) => ({ value: option, label: option })) }),
  };
}

function variablesPage(): string {
  const rows = HUB_SETTINGS.map(({ key, default: fallback, description, here }) => {
    const shown = fallback === undefined ? '' : `\`${fallback}\``;
    return `| \`${key}\` | ${shown} | ${description} | ${hereText(here)} |`;
  });
  const refused = REFUSED.map((key) => `| \`${key}\` | ${whatBecameOf(key) ?? whyOfNoUse(key)} |`);
  return `# Variables of RunPod's forms

Made by \`node scripts/runpod-hub.ts\` from one table, with the forms of the Hub (\`.runpod/\`) and of the console
(\`worker-config.json\`). Every name is one that RunPod's worker has, or had; what it means to [this image in an
endpoint](runpod.md#in-runpods-own-endpoint).

| variable | in the form | meaning | here |
| --- | --- | --- | --- |
${rows.join('\n')}

## Refused

Names of its present and earlier forms without an effect. One that is set is named in a warning at the start, with the
reason; as long as an engine has such a flag it is one.

| variable | why |
| --- | --- |
${refused.join('\n')}
`;
}

function hereText(here: HubSetting['here']): string {
  if (typeof here === 'object') return `a name of \`${here.nameOf}\``;
  return { flag: 'flag of the engine', own: 'read', environment: 'reaches the engine as it is' }[here];
}
