import type { AuditPage } from '../../src/protocol/index.ts';
import type { QueueProcess } from './road.ts';

/** The environment of a queue whose administrator's token is the first of QUEUE_TOKENS. */
export const ROOT = { QUEUE_TOKENS: 'admin:root-secret' };
export const PROMPT = 'a prompt that is nobody’s business';

/** A queue with an administrator, whose token is the first of QUEUE_TOKENS. */
export function callsOf({ url }: Pick<QueueProcess, 'url'>, token = 'root-secret') {
  const call = async (method: string, path: string, body?: object | FormData) => {
    const isForm = body instanceof FormData;
    const headers = {
      authorization: `Bearer ${token}`,
      ...(!isForm && { 'content-type': 'application/json' }),
    };
    const response = await fetch(`${url}${path}`, {
      method,
      headers,
      ...(body && { body: isForm ? body : JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const audit = async (query = '') => {
    const { body } = await call('GET', `/api/audit?limit=500${query}`);
    return (body as unknown as AuditPage).entries;
  };
  return { call, audit };
}

/** A job of the pool cfg, with a prompt that no list may show. */
export const job = (id: string) => ({
  id,
  job_type: 'chat_completion',
  config_id: 'cfg',
  payload: { messages: [{ role: 'user', content: PROMPT }] },
});
