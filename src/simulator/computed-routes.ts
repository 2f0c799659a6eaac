import type { IncomingMessage, ServerResponse } from 'node:http';
import { sendJson } from './answers.ts';
import { readForm, readJson } from './bodies.ts';
import { COMPUTED, type Model, speech, transcript } from './computed.ts';
import { readMessages } from './messages.ts';

type Handler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** Routes that answer at once, without the scheduler. */
export function computedRoutes(model: Model): Record<string, { POST: Handler }> {
  const computed = Object.entries(COMPUTED).map(([path, answer]) => {
    const POST: Handler = async (request, response) =>
      sendJson(response, 200, answer(await readJson(request), model));
    return [path, { POST }] as const;
  });
  return {
    ...Object.fromEntries(computed),
    '/v1/messages/count_tokens': {
      POST: async (request, response) => {
        const { prompts } = readMessages(await readJson(request), model.names);
        sendJson(response, 200, { input_tokens: prompts[0]!.ids.length });
      },
    },
    '/v1/audio/speech': {
      POST: async (request, response) => {
        const { type, bytes } = speech(await readJson(request));
        response.writeHead(200, { 'content-type': type, 'content-length': bytes.length }).end(bytes);
      },
    },
    '/v1/audio/transcriptions': { POST: heard(model) },
    '/v1/audio/translations': { POST: heard(model) },
  };
}

function heard(model: Model): Handler {
  return async (request, response) => {
    const { form, bytes } = await readForm(request);
    const { type, body } = transcript(form, bytes, model);
    response.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body);
  };
}
