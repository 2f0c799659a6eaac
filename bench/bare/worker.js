import { DurableObject } from 'cloudflare:workers';

/** The least that an HTTP request through an object can cost: what the road's cost is held against. */
export class Bare extends DurableObject {
  answer(text) {
    return text.length;
  }
}

export default {
  async fetch(request, env) {
    const text = await request.text();
    const length = await env.BARE.get(env.BARE.idFromName('bare')).answer(text);
    return new Response(`data: ${length}\n\ndata: [DONE]\n\n`, {
      headers: { 'content-type': 'text/event-stream' },
    });
  },
};
