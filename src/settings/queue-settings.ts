import * as bounds from '../protocol/bounds.ts';
import { inferenceRoutes } from '../protocol/engine-routes.ts';
import { ALERT_SETTINGS } from './alert-receivers.ts';
import { HOOK_SETTINGS } from './hooks.ts';
import { parseModelAliases } from './model-aliases.ts';
import { OIDC_SETTINGS } from './oidc.ts';
import { parseRequestTimeouts } from './request-timeouts.ts';
import { WEBHOOK_SETTINGS } from './webhooks.ts';

/** The id of the queue for a request that names none. */
export const DEFAULT_QUEUE = 'vllm-queue';

/**
 * A row of the table of all settings of a queue. This table yields the variables that `worker-vllm queue` and `up`
 * read, their help, the bindings of the gateway and its objects, the defaults of the queue's rules, and the table in
 * docs/settings.md (a test compares them). A row without help is a constant with its reason beside it: only tests set
 * another value, to be quick.
 */
interface QueueSetting {
  /** The environment variable; left out: `QUEUE_` and the key in capitals. */
  variable?: string;
  /** `seconds` and `share` may have a fraction; `count` and `bytes` are whole numbers; `text` is anything but empty. */
  kind: 'seconds' | 'share' | 'count' | 'bytes' | 'text';
  /** The value in effect if nothing is set. */
  default?: number | string;
  /** The smallest and the largest accepted number. */
  min?: number;
  max?: number;
  /** Checks a text. @throws Error that says what is wrong */
  check?: (text: string) => unknown;
  /** The setting's meaning and the reason to change it, for `--help` and docs/settings.md. */
  help?: string;
}

/** @throws Error that names an entry which no browser would send as its origin */
function checkOrigins(text: string): void {
  for (const entry of text.split(',').map((part) => part.trim())) {
    if (entry === '*' || /^[a-z][\w+.-]*:\/\/[^/\s]+$/i.test(entry)) continue;
    throw new Error(
      `expected origins such as "https://app.example.com", comma-separated, or "*"; got "${entry}"`,
    );
  }
}

/** @throws Error for a text that is no choice of what is kept */
function checkKeep(text: string): void {
  if (['off', 'by-token', 'all'].includes(text)) return;
  if (/^0?\.\d+$/.test(text) && Number(text) > 0) return;
  throw new Error('expected off, by-token, all, or a share of all requests such as 0.05');
}

const TEN_YEARS_SECONDS = 10 * 365 * 86_400;

export const QUEUE_SETTINGS = {
  queue_ids: {
    variable: 'QUEUE_IDS',
    kind: 'text',
    default: DEFAULT_QUEUE,
    help: 'ids that queues may have, comma-separated, `*` for any characters: `vllm-queue,team-*`; other ids are answered 404',
  },
  lease_seconds: {
    kind: 'seconds',
    default: bounds.LEASE_SECONDS,
    min: 1,
    help: 'seconds that a worker may be silent before its jobs go to others; more where networks or machines stall for longer',
  },
  retention_seconds: {
    kind: 'seconds',
    // The queue stores results for a week, so that users can still ask for them.
    default: 7 * 86_400,
    min: 1,
    max: TEN_YEARS_SECONDS,
    help: 'seconds that settled jobs, results and ledgers are kept, and workers that are gone; fewer for a small disk, or where prompts may not be kept',
  },
  max_pending: {
    kind: 'count',
    default: 100_000,
    min: 1,
    help: 'stored jobs that may wait per pool, which bounds the disk; more are answered 429',
  },
  max_waiting: {
    kind: 'count',
    // Each waiting request holds a connection.
    default: 1000,
    min: 1,
    help: 'callers that may wait for a slot per pool, each with its connection; more are answered 429',
  },
  tenant_share: {
    kind: 'share',
    default: 1,
    min: 0.001,
    max: 1,
    help: 'share of what may wait (these two limits, and 128 MiB of waiting requests) that one tenant may take, over all pools: with `0.5` a tenant that floods the queue leaves half of it to the others',
  },
  max_body_bytes: {
    kind: 'bytes',
    default: bounds.PAYLOAD_BYTES,
    min: 1024,
    max: bounds.MOST_BODY_BYTES,
    help: 'bytes of one request body for the engine; a larger one is answered 413',
  },
  local_hosts: {
    kind: 'text',
    help: 'more names of this machine, comma-separated, under which a queue without tokens may be called: `host.docker.internal`',
  },
  model_aliases: {
    kind: 'text',
    check: parseModelAliases,
    help: 'more names for models, `alias=model`, comma-separated: `gpt-4o=my-model,small=org/model-8b`; the engine is asked for its own name',
  },
  inference_routes: {
    variable: 'INFERENCE_ROUTES',
    kind: 'text',
    check: inferenceRoutes,
    help: 'routes of the engine that callers reach: `+POST /v1/ocr` adds one to the list, `-POST /invocations` takes one away, entries without a sign are the whole list; a worker has the same variable, for the routes that jobs may ask its engine for',
  },
  request_timeouts: {
    kind: 'text',
    check: parseRequestTimeouts,
    help: 'time limits of requests in seconds by route, the first that fits, `*` for any characters: `/v1/embeddings=30,*=600`; beyond it the answer is 504. `X-Request-Timeout` may ask for less',
  },
  cors_origins: {
    kind: 'text',
    check: checkOrigins,
    help: 'origins whose web pages may call with a token of theirs, comma-separated, `*` for any characters: `https://app.example.com,https://*.example.org`; pages of this machine always may',
  },
  show_payloads: {
    kind: 'count',
    default: 0,
    min: 0,
    max: 1,
    help: '1: people who are signed in to the page with the scope admin see payloads and results of every job there; 0: of their own tenant alone',
  },
  ...WEBHOOK_SETTINGS,
  ...ALERT_SETTINGS,
  ...OIDC_SETTINGS,
  ...HOOK_SETTINGS,

  // A worker whose connection broke redials within seconds; a longer grace makes callers wait for a worker that died.
  reconnect_grace_seconds: {
    kind: 'seconds',
    default: bounds.RECONNECT_GRACE_SECONDS,
    min: 0,
  },
  // Two missed pings mean that the connection is dead. Proxies close a connection that is quiet for 60 s or more.
  ping_seconds: {
    kind: 'seconds',
    default: bounds.PING_SECONDS,
    min: 1,
  },
  // The gateway holds each waiting body a second time: both copies take half of a small machine of 512 MB.
  max_waiting_bytes: {
    kind: 'bytes',
    default: 128 * 1024 * 1024,
    min: 1,
  },
  // With 2,000 callers of 2 MiB at once, the queue takes 448 MiB at the peak, connections and copies included.
  max_bodies_bytes: {
    kind: 'bytes',
    default: 48 * 1024 * 1024,
    min: bounds.PAYLOAD_BYTES,
  },
  // This is OpenAI's limit for the input of a batch.
  max_file_bytes: {
    kind: 'bytes',
    default: 200 * 1024 * 1024,
    min: 1024,
  },
  // This is OpenAI's limit.
  max_batch_lines: {
    kind: 'count',
    default: 50_000,
    min: 1,
  },
  responses_retention_seconds: {
    kind: 'seconds',
    // This is OpenAI's retention.
    default: 30 * 86_400,
    min: 1,
    max: TEN_YEARS_SECONDS,
    help: 'seconds that responses of /v1/responses are kept after they are made, with their items',
  },
  conversations_retention_seconds: {
    kind: 'seconds',
    // OpenAI deletes none by itself.
    min: 1,
    max: TEN_YEARS_SECONDS,
    help: 'seconds that a conversation is kept after its last change; without it, until it is deleted',
  },
  keep_requests: {
    kind: 'text',
    default: 'off',
    check: checkKeep,
    help: 'which requests are [kept with their answers](kept-requests.md): `off`, `by-token` (those of tokens that say `keep`), `all`, or a share of all such as `0.05`; what a token says goes before `all` and a share',
  },
  keep_requests_seconds: {
    kind: 'seconds',
    default: 30 * 86_400,
    min: 60,
    max: TEN_YEARS_SECONDS,
    help: 'seconds that kept requests are kept',
  },
  keep_requests_bytes: {
    kind: 'bytes',
    default: 1_000_000_000,
    min: 1_000_000,
    help: 'the most bytes of kept requests of a queue id; beyond them the oldest are deleted',
  },
  // This is OpenAI's retention for the output of a batch. An upload may set `expires_after`, and a file can be deleted.
  file_retention_seconds: {
    kind: 'seconds',
    default: 30 * 86_400,
    min: 1,
    max: TEN_YEARS_SECONDS,
  },
} as const satisfies Record<string, QueueSetting>;

type Table = typeof QUEUE_SETTINGS;
type QueueSettingName = keyof Table;

/** The values of all settings, by their names in the table. */
export type QueueSettingValues = {
  [Name in QueueSettingName]: Table[Name]['kind'] extends 'text' ? string : number;
};

/** The settings as bindings of the gateway and its objects: texts, and only those that are set. */
export type QueueSettingBindings = { [Name in QueueSettingName as Uppercase<Name>]?: string };

/** Returns the table's rows as one type, for code that goes over all of them. */
export function queueSettings(): [QueueSettingName, QueueSetting][] {
  return Object.entries(QUEUE_SETTINGS) as [QueueSettingName, QueueSetting][];
}

/** Returns the settings that an operator has a reason to set. */
export function operatorSettings(): [QueueSettingName, QueueSetting & { help: string }][] {
  return queueSettings().flatMap(([name, setting]) =>
    setting.help === undefined ? [] : [[name, { ...setting, help: setting.help }]],
  );
}

/** Returns the environment variable of `worker-vllm queue` and `up` for a setting. */
export function variableOf(name: QueueSettingName): string {
  return (QUEUE_SETTINGS[name] as QueueSetting).variable ?? `QUEUE_${name.toUpperCase()}`;
}

/** Returns the name of a setting's binding in the gateway and the objects. */
export function bindingName(name: QueueSettingName): keyof QueueSettingBindings {
  return name.toUpperCase() as keyof QueueSettingBindings;
}

/** Returns the settings that have a binding. */
export function settingsFromBindings(bindings: QueueSettingBindings): Partial<QueueSettingValues> {
  const given = queueSettings().flatMap(([name, { kind }]) => {
    const text = bindings[bindingName(name)];
    if (!text) return [];
    return [[name, kind === 'text' ? text : Number(text)]];
  });
  return Object.fromEntries(given);
}

/** Returns all settings: the given value, else the default. */
export function completeQueueSettings(given: Partial<QueueSettingValues>): QueueSettingValues {
  const defaults = Object.fromEntries(queueSettings().map(([name, setting]) => [name, setting.default]));
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...defaults, ...Object.fromEntries(set) } as QueueSettingValues;
}

/** Returns a setting's default as help and the table of settings show it. */
export function defaultText(setting: QueueSetting): string {
  return String(setting.default ?? '') || 'none';
}

/** The durations and limits of one queue, from the table of settings. */
export type QueueSettings = {
  queue_id: string;
  /** The beginning of the keys of the queue's files (protocol/file-keys.ts); empty if no secret is configured. */
  file_key_mac: string;
} & QueueSettingValues;

/** The settings that were given; those left out have their defaults. */
export type GivenSettings = Partial<QueueSettings> & Pick<QueueSettings, 'queue_id'>;

export function completeSettings(given: GivenSettings): QueueSettings {
  return {
    queue_id: given.queue_id,
    file_key_mac: given.file_key_mac ?? '',
    ...completeQueueSettings(given),
  };
}
