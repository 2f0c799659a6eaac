import { FLAGS } from './flags.ts';

/**
 * What a RunPod endpoint can be told: the one table of the Hub's form (`.runpod/hub.json`), of the console's
 * (`worker-config.json`) and of docs/runpod-variables.md. The names are those of RunPod's worker.
 */
export interface HubSetting {
  key: string;
  group: (typeof GROUPS)[number];
  title: string;
  description: string;
  type: 'string' | 'number' | 'boolean' | 'huggingface';
  /** As the form shows it; left out: empty. */
  default?: string | number | boolean;
  /** Choices, where there are few. */
  options?: readonly string[];
  required?: boolean;
  /**
   * What becomes of it here: a flag of the engine, a variable of this project, a name for one of the two, or one that
   * reaches the engine as it is.
   */
  here: 'flag' | 'own' | 'environment' | { nameOf: string };
}

export const GROUPS = ['Model', 'Memory and speed', 'LoRA', 'Tools', 'Jobs', 'Logs'] as const;

const MODEL: HubSetting = {
  key: 'MODEL_NAME',
  group: 'Model',
  title: 'Model',
  description: 'Model on Hugging Face, owner/name, or a folder of the container',
  type: 'huggingface',
  required: true,
  here: { nameOf: 'VLLM_MODEL' },
};

const NAMES: [HubSetting['group'], string, string, string, string][] = [
  ['Model', 'MODEL_REVISION', 'REVISION', 'Revision', 'Branch, tag or commit of the model'],
  ['Model', 'TOKENIZER_NAME', 'TOKENIZER', 'Tokenizer (old name)', 'The same as TOKENIZER'],
  ['Model', 'CUSTOM_CHAT_TEMPLATE', 'CHAT_TEMPLATE', 'Chat template', 'Jinja text, or a file with it'],
  [
    'Model',
    'OPENAI_SERVED_MODEL_NAME_OVERRIDE',
    'SERVED_MODEL_NAME',
    'Served name',
    'What callers name the model',
  ],
  [
    'Tools',
    'OPENAI_RESPONSE_ROLE',
    'RESPONSE_ROLE',
    'Role of answers',
    'In chat completions; assistant if empty',
  ],
];

const own = (row: Omit<HubSetting, 'here' | 'group'>): HubSetting => ({ ...row, group: 'Jobs', here: 'own' });

const OWN: HubSetting[] = [
  {
    ...own({
      key: 'MAX_CONCURRENCY',
      type: 'number',
      default: 30,
      title: 'Jobs at a time',
      description: 'Jobs that one worker takes; what is more waits in the engine',
    }),
    here: { nameOf: 'CASOLA_MAX_JOBS' },
  },
  own({
    key: 'RUNPOD_OUTPUT',
    type: 'string',
    default: 'engine',
    options: ['engine', 'tokens'],
    title: 'Form of outputs',
    description:
      'engine: the engine’s own answers, as RunPod’s worker since 2.24; tokens: as 0.2 and 2.x before',
  }),
  own({
    key: 'DEFAULT_BATCH_SIZE',
    type: 'number',
    default: 50,
    title: 'Largest batch',
    description: 'Tokens in a piece of a stream (tokens)',
  }),
  own({
    key: 'DEFAULT_MIN_BATCH_SIZE',
    type: 'number',
    default: 1,
    title: 'First batch',
    description: 'Tokens in the first piece (tokens)',
  }),
  own({
    key: 'DEFAULT_BATCH_SIZE_GROWTH_FACTOR',
    type: 'number',
    default: 3,
    title: 'Growth of batches',
    description: 'From the first to the largest (tokens)',
  }),
  own({
    key: 'RAW_OPENAI_OUTPUT',
    type: 'boolean',
    default: true,
    title: 'Events as text',
    description: 'Streams of openai_route as text; false: as lists (tokens)',
  }),
  own({
    key: 'BASE_PATH',
    type: 'string',
    default: '/runpod-volume',
    title: 'Base folder',
    description: 'Models are kept below it',
  }),
  own({
    key: 'VLLM_STARTUP_TIMEOUT',
    type: 'number',
    default: 1200,
    title: 'Time to start',
    description: 'Seconds until the engine must be healthy; RunPod’s own limit is RUNPOD_INIT_TIMEOUT',
  }),
  {
    key: 'HF_TOKEN',
    group: 'Model',
    type: 'string',
    title: 'Token of Hugging Face',
    description: 'For models that are not public',
    here: 'environment',
  },
  {
    key: 'PYTORCH_ALLOC_CONF',
    group: 'Memory and speed',
    type: 'string',
    default: 'expandable_segments:True',
    title: 'Allocator',
    description: 'Of PyTorch',
    here: 'environment',
  },
  {
    key: 'VLLM_USE_DEEP_GEMM',
    group: 'Memory and speed',
    type: 'string',
    default: '0',
    title: 'DeepGEMM',
    description: '1: its kernels, which are compiled at the first start',
    here: 'environment',
  },
];

/** In the order of the forms. */
export const HUB_SETTINGS: readonly HubSetting[] = [
  MODEL,
  ...Object.entries(FLAGS).flatMap(([group, rows]) =>
    rows.map(
      ([key, type, fallback, title, description, options]): HubSetting => ({
        ...{ key, type, title, description, group: group as HubSetting['group'], here: 'flag' },
        ...(fallback !== null && { default: fallback }),
        ...(options && { options }),
      }),
    ),
  ),
  ...NAMES.map(
    ([group, key, nameOf, title, description]): HubSetting => ({
      key,
      group,
      title,
      description,
      type: 'string',
      here: { nameOf },
    }),
  ),
  ...OWN,
];
