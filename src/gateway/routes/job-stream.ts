import { readerOf } from '../auth.ts';
import { respondEarly } from '../inference/early-response.ts';
import { followJob } from '../inference/follow-job.ts';
import { callQueue } from '../objects/calls.ts';
import { wholeJob } from '../objects/job-files.ts';
import { queueIdOf } from '../objects/queue-ids.ts';
import { endsWithToken, whileGood } from '../token-watch.ts';
import { type Gateway, route } from './route.ts';

/** Registers the answer of a stored job, while it is made and after. Readers change nothing for the job. */
export function jobStreamRoute(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/api/jobs/:id/stream',
    tag: 'Jobs',
    summary: 'The answer of a job that was submitted with stream: true, from its beginning',
    scopes: ['submit'],
    answers: {
      200: { description: "The engine's own events.", content: { type: 'text/event-stream' } },
    },
    errors: [404, 409, 410, 503],
    handler: async (context) => {
      const { env } = context;
      const request = context.req.raw;
      const queueId = queueIdOf(env, request);
      const id = context.req.param('id');
      const reader = readerOf(context.get('token'), env);
      const hungUp = new AbortController();
      request.signal.addEventListener('abort', () => hungUp.abort());
      const answered = followJob(id, hungUp.signal, {
        follow: (fence, waitMs) =>
          callQueue(env, queueId, (queue) => queue.follow(id, fence, waitMs, reader)),
        openReplay: (workerId, streamId, signal) =>
          env.objects.relay(queueId, workerId).openReplay(streamId, {}, signal),
        whole: (job) => wholeJob(env, queueId, job),
        now: () => Date.now(),
      });
      const caller = context.get('token');
      const named = whileGood(caller, env, answered).then((response) => {
        const watched = endsWithToken(caller, env, response);
        watched.headers.set('x-job-id', id);
        return watched;
      });
      // Nobody reads what comes after the token has ended.
      named.catch(() => hungUp.abort());
      return respondEarly(named, {
        kind: 'events',
        headers: { 'x-job-id': id },
        errorOf: { dialect: 'openai', requestId: context.get('requestId') },
        timers: globalThis,
        hangUp: () => hungUp.abort(),
      });
    },
  });
}
