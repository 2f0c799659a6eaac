import { APIConnectionError, APIError, APIUserAbortError, OpenAI } from 'openai';
import { type QueueTarget, refusal, unreachable } from './ask-queue.ts';

/**
 * Calls OpenAI's API at a queue.
 * @throws UnreachableQueue where the same call may succeed later; UserError where the queue refuses it;
 * APIUserAbortError where the call's signal ended it
 */
export type AskOpenAI = <T>(call: (client: OpenAI) => Promise<T>) => Promise<T>;

/**
 * Returns calls by OpenAI's own client to a queue. The variables that the environment holds for OpenAI do not reach
 * the queue.
 */
export function openAIAt({ url, token, queueId }: QueueTarget): AskOpenAI {
  // The client sends these headers with every request, and has no option against it.
  delete process.env.OPENAI_CUSTOM_HEADERS;
  const client = new OpenAI({
    baseURL: `${url.replace(/\/+$/, '')}/v1`,
    apiKey: token ?? 'none',
    adminAPIKey: null,
    organization: null,
    project: null,
    defaultHeaders: { ...(!token && { authorization: null }), ...(queueId && { 'x-queue-id': queueId }) },
  });
  return async (call) => {
    try {
      return await call(client);
    } catch (error) {
      if (error instanceof APIUserAbortError || !(error instanceof APIError)) throw error;
      if (error instanceof APIConnectionError) throw unreachable(url, error);
      const { message } = Object(error.error) as { message?: string };
      throw refusal(error.status, message);
    }
  };
}
