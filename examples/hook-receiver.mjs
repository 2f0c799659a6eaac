// A receiver of both hooks: docs/hooks.md. It masks e-mail addresses in what is asked and in what is answered, and
// refuses requests that ask for a password.
//
//   HOOK_SECRET=whsec_… PORT=9000 node hook-receiver.mjs
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

const key = Buffer.from(process.env.HOOK_SECRET.replace('whsec_', ''), 'base64');
const ADDRESS = /[\w.+-]+@[\w-]+\.[\w.]+/g;

createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const body = Buffer.concat(parts).toString();
  const { 'webhook-id': id, 'webhook-timestamp': at, 'webhook-signature': given } = request.headers;
  const made = `v1,${createHmac('sha256', key).update(`${id}.${at}.${body}`).digest('base64')}`;
  const isSigned = given?.length === made.length && timingSafeEqual(Buffer.from(given), Buffer.from(made));
  if (!isSigned || Math.abs(Date.now() / 1000 - at) > 300) return response.writeHead(401).end();
  response
    .writeHead(200, { 'content-type': 'application/json' })
    .end(JSON.stringify(verdict(JSON.parse(body))));
}).listen(Number(process.env.PORT ?? 9000), '127.0.0.1', function () {
  console.log(`listening on http://127.0.0.1:${this.address().port}`);
});

function verdict({ stage, body, text }) {
  const said = stage === 'before' ? JSON.stringify(body ?? '') : text;
  if (stage === 'before' && /password/i.test(said))
    return { action: 'refuse', message: 'Nobody is told passwords here.', code: 'policy' };
  const masked = said.replaceAll(ADDRESS, '[address]');
  if (masked === said) return { action: 'allow' };
  return { action: 'replace', ...(stage === 'before' ? { body: JSON.parse(masked) } : { text: masked }) };
}
