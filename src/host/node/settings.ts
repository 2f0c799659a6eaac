import { readFileSync } from 'node:fs';
import * as z from 'zod';
import { logVariables, readEnvironment, UserError, variable } from '../../process/index.ts';
import { isPrivateHost } from '../../process/ip-addresses.ts';
import { isLoopback } from '../../process/network.ts';
import { parseAlertReceivers } from '../../settings/alert-receivers.ts';
import { hookSettingsProblem } from '../../settings/hooks.ts';
import { oidcSettingsProblem } from '../../settings/oidc.ts';
import { bindingName, queueSettings, variableOf } from '../../settings/queue-settings.ts';
import type { TokenEntry } from '../../settings/token-entry.ts';
import { webhookSettingsProblem } from '../../settings/webhooks.ts';
import { readTokenFile, tokensFromText } from '../../state/tokens.ts';

/** The settings of a queue: its address, its state folder, its tokens and its object's variables. */
export interface QueueSettings {
  host: string;
  port: number;
  stateDir: string;
  /** The number of gateways in processes of their own; 0: the queue's process is the gateway too. */
  gateways: number;
  tokens: TokenEntry[];
  /** The tokens from elsewhere than the state folder, whose file is read again when it changes. */
  otherTokens: TokenEntry[];
  /** The address of the journal; undefined: the queue has none. */
  journal: string | undefined;
  /** Whether the queue waits until the journal's owner is gone, if there is one. */
  follow: boolean;
  /** The variables of the queue object that the operator has set. */
  objectSettings: Record<string, string>;
}

/** The options of the command line, which take precedence over the environment. */
export interface QueueOptions {
  host?: string;
  port?: string;
  state?: string;
  journal?: string;
  follow?: boolean;
  gateways?: string;
}

/** Every variable of a queue as a zod shape, so that `up` checks them together with the worker's. */
export const queueVariables = {
  ...logVariables,
  QUEUE_HOST: variable.host().default('127.0.0.1'),
  // 0 lets the system choose a free one.
  QUEUE_PORT: variable.integer(0, 65_535).default(8788),
  WORKER_VLLM_STATE: variable.path().default('.worker-vllm'),
  QUEUE_GATEWAYS: variable.integer(0, 64).default(0),
  QUEUE_TOKENS: tokenList().optional(),
  QUEUE_JOURNAL: variable.text().optional(),
  QUEUE_FOLLOW: variable.flag().default(false),
  ...settingVariables(),
  QUEUE_ALERTS: textOrFile(parseAlertReceivers).optional(),
};

/**
 * Reads the settings from the command line and the environment.
 * @throws UserError for bad values, and for an address beyond this machine without tokens
 */
export async function readQueueSettings(
  options: QueueOptions,
  env: NodeJS.ProcessEnv,
): Promise<QueueSettings> {
  const given = readEnvironment(z.object(queueVariables), withOptions(options, env));
  const settings: QueueSettings = {
    host: given.QUEUE_HOST,
    port: given.QUEUE_PORT,
    stateDir: given.WORKER_VLLM_STATE,
    gateways: given.QUEUE_GATEWAYS,
    tokens: [...(await readTokenFile(given.WORKER_VLLM_STATE)), ...(given.QUEUE_TOKENS ?? [])],
    otherTokens: given.QUEUE_TOKENS ?? [],
    journal: given.QUEUE_JOURNAL,
    follow: given.QUEUE_FOLLOW,
    objectSettings: objectSettingsOf(given),
  };
  const {
    WEBHOOK_HOSTS: hosts = '',
    WEBHOOK_SECRET: secret = '',
    WEBHOOK_URL: url,
  } = settings.objectSettings;
  const { HOOK_BEFORE: before, HOOK_AFTER: after, HOOK_SECRET: hookSecret } = settings.objectSettings;
  const problem =
    webhookSettingsProblem({ hosts, secret, url }, isPrivateHost) ??
    oidcSettingsProblem(settings.objectSettings) ??
    hookSettingsProblem({ before, after, secret: hookSecret }, isPrivateHost);
  if (problem !== null) throw new UserError(problem);
  if (settings.follow && settings.journal === undefined) {
    throw new UserError('There is nothing to follow: name the journal (--journal or QUEUE_JOURNAL).');
  }
  if (settings.tokens.length === 0 && settings.objectSettings.OIDC_ISSUER !== undefined) {
    throw new UserError(
      'QUEUE_OIDC_ISSUER lets people sign in, but workers and programs need tokens, and there are none. ' +
        'Make the first one: "npx worker-vllm token create --scope worker".',
    );
  }
  if (settings.tokens.length === 0 && !isLoopback(settings.host)) {
    throw new UserError(
      `A queue without tokens listens on this machine only, not on ${settings.host}: anybody could use it. ` +
        'Make tokens first: "npx worker-vllm token create --scope worker" for workers, "npx worker-vllm token create --scope submit" for callers; or set QUEUE_TOKENS.',
    );
  }
  return settings;
}

/** Refuses to follow in a command that needs its queue at once. @throws UserError */
export function refuseToFollow({ follow }: QueueSettings): void {
  if (!follow) return;
  throw new UserError(
    'A queue that is started together with its workers cannot follow a journal: leave QUEUE_FOLLOW out here, and start ' +
      'the process that follows with "worker-vllm queue --follow".',
  );
}

/** Adds a token that a command made for itself. */
export function addToken(settings: QueueSettings, entry: TokenEntry): void {
  settings.tokens = [...settings.tokens, entry];
  settings.otherTokens = [...settings.otherTokens, entry];
}

/** Returns the environment with the changes of the command line. */
export function withOptions(options: QueueOptions, env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return {
    ...env,
    ...(options.host !== undefined && { QUEUE_HOST: options.host }),
    ...(options.port !== undefined && { QUEUE_PORT: options.port }),
    ...(options.state !== undefined && { WORKER_VLLM_STATE: options.state }),
    ...(options.journal !== undefined && { QUEUE_JOURNAL: options.journal }),
    ...(options.follow && { QUEUE_FOLLOW: 'true' }),
    ...(options.gateways !== undefined && { QUEUE_GATEWAYS: options.gateways }),
  };
}

/** A text, or the path of a file that has it, which begins with `/` or `.`: a shell sets no long text with ease. */
function textOrFile(check: (text: string) => unknown) {
  return z.string().transform((given, context) => {
    try {
      const text = /^\s*[./]/.test(given) ? textOf(given.trim()) : given;
      check(text);
      return text;
    } catch (error) {
      context.addIssue({ code: 'custom', message: (error as Error).message });
      return z.NEVER;
    }
  });
}

/** @throws Error if the file cannot be read */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new Error(code === 'ENOENT' ? `there is no file ${path}` : `${path} cannot be read: ${message}`);
  }
}

function tokenList() {
  return z.string().transform((text, context) => {
    try {
      return tokensFromText(text);
    } catch (error) {
      context.addIssue({ code: 'custom', message: (error as Error).message });
      return z.NEVER;
    }
  });
}

/** Returns the variables of the table of settings. */
function settingVariables() {
  return Object.fromEntries(
    queueSettings().map(([name, setting]) => [variableOf(name), settingSchema(setting).optional()]),
  );
}

function settingSchema({ kind, min = 0, max, check }: ReturnType<typeof queueSettings>[number][1]) {
  if (kind === 'text') return check ? variable.checkedText(check) : variable.text();
  if (kind === 'share') return variable.share(min);
  return kind === 'seconds' ? variable.seconds(min, max) : variable.integer(min, max);
}

function objectSettingsOf(given: Record<string, unknown>): Record<string, string> {
  const set = queueSettings().filter(([name]) => given[variableOf(name)] !== undefined);
  return Object.fromEntries(set.map(([name]) => [bindingName(name), String(given[variableOf(name)])]));
}

/** Returns the gateway's variables (src/gateway/env.ts). */
export function bindingsOf(settings: QueueSettings): Record<string, string> {
  return { TOKENS: JSON.stringify(settings.tokens), ...settings.objectSettings };
}
