import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * A server with the OpenAI API and nothing else, as small programs for one user are: no `/health`, no metrics,
 * errors in their own form, one field less here and there.
 */
export async function startPlainServer(): Promise<{ url: string; stop(): Promise<void> }> {
  const server = createServer((request, response) => void answer(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.url === '/v1/models') return json(response, 200, { object: 'list', data: [{ id: 'tiny' }] });
  if (request.url !== '/v1/chat/completions')
    return refuse(response, 404, 'File Not Found', 'not_found_error');
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const body = JSON.parse(Buffer.concat(parts).toString());
  if (typeof body.max_tokens !== 'number') {
    return refuse(response, 400, 'max_tokens must be a number', 'invalid_request_error');
  }
  if (body.stream) return stream(response);
  json(response, 200, {
    choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }],
    usage: { completion_tokens: 1, prompt_tokens: 2, total_tokens: 3 },
    object: 'chat.completion',
  });
}

function stream(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const event = (delta: object, finish_reason: string | null) =>
    response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`);
  event({ content: 'hi' }, null);
  event({}, 'stop');
  response.end('data: [DONE]\n\n');
}

function refuse(response: ServerResponse, code: number, message: string, type: string): void {
  json(response, code, { error: { code, message, type } });
}

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(body));
}
