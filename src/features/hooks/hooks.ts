import {
  type Filter,
  type FilteredRequest,
  FilterOutage,
  FilterRefusal,
  type Result,
  type SettlingJob,
} from '../../asking/filters.ts';
import { base64Of, bytesOfBase64, jsonFields, utf8Text, writeJson } from '../../protocol/index.ts';
import { jobFacts } from '../../request-facts/job-facts.ts';
import { type HookAddress, hookSettingsProblem, parseHookAddress } from '../../settings/hooks.ts';
import { QUEUE_SETTINGS } from '../../settings/queue-settings.ts';
import { webhookKey } from '../../settings/webhooks.ts';
import type { FilterParts } from '../filter-parts.ts';
import { seenAnswer } from './answer.ts';
import { HookCaller, HookFailure, type Verdict } from './caller.ts';
import { HookCounts, type Stage } from './counts.ts';
import type { AskedText, AskHook } from './held-events.ts';
import { seeWhole } from './whole.ts';

/** The facts about a request that a hook is told, beside its body or its text. */
interface Facts {
  queue: string;
  tenant: string | null;
  token: string | null;
  route: string | null;
  model: string | null;
  request_id: string;
  job_id: string;
}

/** The status of what a hook refuses, and of what cannot pass because a hook failed. */
const REFUSED = 400;
const FAILED = 503;
const HOOK_FAILED = 'hook_failed';

/**
 * Returns the filter that asks the hooks of a queue (docs/hooks.md); null: it has none.
 * @throws Error for settings that cannot be used, so that nothing passes without its hook
 */
export function hooks(parts: FilterParts): Filter | null {
  const { HOOK_BEFORE: before, HOOK_AFTER: after, HOOK_SECRET: secret = '' } = parts.settings;
  if (!before && !after) return null;
  const problem = hookSettingsProblem({ before, after, secret });
  if (problem !== null) throw new Error(problem);
  const { HOOK_SECONDS, HOOK_HOLD, HOOK_ON_FAILURE } = parts.settings;
  const counts = new HookCounts();
  const caller = new HookCaller({
    post: parts.post,
    key: webhookKey(secret)!,
    deadlineMs: Number(HOOK_SECONDS || QUEUE_SETTINGS.hook_seconds.default) * 1000,
    counts,
    now: Date.now,
  });
  const isOpen = (HOOK_ON_FAILURE || QUEUE_SETTINGS.hook_on_failure.default) === 'open';
  const mostBytes = Number(parts.settings.MAX_BODY_BYTES || QUEUE_SETTINGS.max_body_bytes.default);
  const asking = { caller, isOpen, mostBytes, log: parts.log };
  const hold = Number(HOOK_HOLD || QUEUE_SETTINGS.hook_hold.default);
  return {
    ...(before && beforeHook(parseHookAddress(before), asking)),
    ...(after && afterHook(parseHookAddress(after), hold, asking)),
    families: () => counts.families(),
  };
}

interface Asking {
  caller: HookCaller;
  /** Whether a request passes whose hook failed. */
  isOpen: boolean;
  /** The most bytes of a body for an engine. */
  mostBytes: number;
  log: FilterParts['log'];
}

function beforeHook(address: HookAddress, asking: Asking): Pick<Filter, 'request'> {
  return {
    request: async (asked, body) => {
      const json = jsonOf(body);
      const facts = JSON.stringify({ stage: 'before', ...factsOf(asked), content_type: asked.contentType });
      const sent = json === null ? `"body_base64":"${base64Of(body)}"` : `"body":${json}`;
      try {
        const verdict = await asking.caller.ask('before', address, `${facts.slice(0, -1)},${sent}}`);
        if (verdict.action === 'refuse') throw refusalOf(verdict);
        if (verdict.action === 'allow') return null;
        const replaced = replacedBody(verdict.answer, json !== null);
        if (replaced.byteLength <= asking.mostBytes) return replaced;
        throw new HookFailure(`it replaced a body by one of more than ${asking.mostBytes} bytes`);
      } catch (error) {
        failed('before', error, asked, asking);
        return null;
      }
    },
  };
}

function afterHook(address: HookAddress, hold: number, asking: Asking): Pick<Filter, 'answer' | 'settled'> {
  return {
    answer: (response, asked) => {
      const { path, requestId } = asked;
      const ask = askAfter(factsOf(asked), asked, address, asking);
      return seenAnswer(response, { ask, hold, path, requestId });
    },
    settled: async (result, job) => {
      if (isError(result)) return null;
      const copy = JSON.parse(writeJson(result)) as Result;
      const facts = factsOf({ ...job, requestId: job.jobId, ...(await askedBy(job)) });
      return (await seeWhole(copy, askAfter(facts, job, address, asking))) ? copy : null;
    },
  };
}

/** Returns the function that asks the hook about the texts of one answer. */
function askAfter(
  facts: Facts,
  on: Pick<FilteredRequest, 'jobId' | 'note'>,
  address: HookAddress,
  asking: Asking,
): AskHook {
  let hasFailed = false;
  return async ({ part, text, offset, isLast }: AskedText) => {
    // Where an answer goes on without its hook, the rest of it does not wait for the deadline again and again.
    if (hasFailed) return null;
    try {
      const body = JSON.stringify({ stage: 'after', ...facts, part, text, offset, is_last: isLast });
      const verdict = await asking.caller.ask('after', address, body);
      if (verdict.action === 'refuse') throw refusalOf(verdict);
      if (verdict.action === 'allow') return null;
      const replaced = jsonFields(new TextEncoder().encode(verdict.answer), ['text']).text;
      const value: unknown = replaced && JSON.parse(new TextDecoder().decode(replaced));
      if (typeof value !== 'string') throw new HookFailure('it replaced a text without a "text"');
      if (part === 'input' && !isObjectJson(value))
        throw new HookFailure('it replaced the input of a tool call by what is no JSON of an object');
      return value;
    } catch (error) {
      hasFailed = true;
      failed('after', error, on, asking);
      return null;
    }
  };
}

/** Notes that a hook failed, and lets the request or the answer pass where the queue is open. @throws what else there is */
function failed(
  stage: Stage,
  error: unknown,
  on: Pick<FilteredRequest, 'jobId' | 'note'>,
  { isOpen, log }: Asking,
): void {
  if (!(error instanceof HookFailure)) throw error;
  const what = stage === 'before' ? 'request' : 'answer';
  const way = isOpen ? `the ${what} went on without it` : `the ${what} was kept back`;
  log('warn', 'a hook failed', { job_id: on.jobId, stage, reason: error.message, way });
  on.note(`the hook ${stage} failed: ${error.message}; ${way} (QUEUE_HOOK_ON_FAILURE)`);
  if (isOpen) return;
  const message = `The hook that looks at each ${what} here failed, and nothing passes without it. Try again; if this stays so, tell the operator of the queue.`;
  throw new FilterOutage(FAILED, HOOK_FAILED, message);
}

function refusalOf({ code, message }: Extract<Verdict, { action: 'refuse' }>): FilterRefusal {
  return new FilterRefusal(REFUSED, code, message);
}

function factsOf(
  asked: Pick<FilteredRequest, 'queueId' | 'tenant' | 'tokenName' | 'path' | 'model' | 'requestId' | 'jobId'>,
): Facts {
  const { queueId, tenant, tokenName, path, model, requestId, jobId } = asked;
  return {
    queue: queueId,
    tenant,
    token: tokenName,
    route: path,
    model,
    request_id: requestId,
    job_id: jobId,
  };
}

/** Returns what a stored job asked for; a payload that is gone says nothing. */
async function askedBy({
  jobType,
  model,
  payload,
}: SettlingJob): Promise<{ path: string | null; model: string | null }> {
  const text = await payload();
  try {
    const facts = text === null ? null : jobFacts(jobType, new TextEncoder().encode(text));
    return { path: facts?.request.path ?? null, model: facts?.model ?? model };
  } catch {
    return { path: null, model };
  }
}

/** Whether a result only says what an engine refused. */
function isError({ response }: Result): boolean {
  const { status } = Object(response) as { status?: unknown };
  return Number(status) >= 400;
}

/** Returns a body as JSON of an object; null: it is none. */
function jsonOf(body: Uint8Array): string | null {
  try {
    const text = utf8Text(body);
    return isObjectJson(text) ? text : null;
  } catch {
    return null;
  }
}

function isObjectJson(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

/** Returns the body in a hook's answer, byte for byte where it is JSON. @throws HookFailure where there is none */
function replacedBody(answer: string, isJson: boolean): Uint8Array<ArrayBuffer> {
  const { body, body_base64: base64 } = jsonFields(new TextEncoder().encode(answer), ['body', 'body_base64']);
  try {
    if (isJson && body && isObjectJson(new TextDecoder().decode(body))) return body.slice();
    if (!isJson && base64) return bytesOfBase64(JSON.parse(new TextDecoder().decode(base64)) as string);
  } catch {
    // The check below reports what is no base64.
  }
  const wanted = isJson ? 'a "body", JSON of an object' : 'a "body_base64"';
  throw new HookFailure(`it replaced a body without ${wanted}`);
}
