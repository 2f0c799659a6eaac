import type { SupervisorMessage } from '../../../src/worker/supervisor-channel.ts';

/**
 * A worker that only shows what its supervisor does to it. `STAND_IN_WORKER`: `exit N` ends at once,
 * `stubborn` ignores SIGTERM, `babbling` says what no supervisor knows. Like a real one it says when the engine is healthy.
 */
const kind = process.env.STAND_IN_WORKER ?? '';
const say = (text: string) => process.stdout.write(`worker ${text}\n`);

if (kind.startsWith('exit ')) process.exit(Number(kind.slice(5)));

process.on('message', (message: SupervisorMessage) => {
  say(`heard ${message.case} ${message.case === 'phase' ? message.phase : JSON.stringify(message)}`);
  if (message.case === 'engine_exited') process.exit(0);
});
process.on('disconnect', () => {
  if (kind !== 'stubborn') process.exit(1);
});
process.on('SIGTERM', () => {
  say('got SIGTERM');
  if (kind === 'stubborn') return;
  setTimeout(() => {
    say('drained');
    process.exit(0);
  }, 100);
});
// Not before: a test that reads either of them may send a signal.
say(`pid ${process.pid}`);
if (kind === 'babbling') process.send?.({ case: 'surprise' });

let wasHealthy = false;
setInterval(async () => {
  const answer = await fetch(`http://127.0.0.1:${process.env.VLLM_PORT}/health`).catch(() => null);
  const isHealthy = answer?.ok ?? false;
  if (isHealthy && !wasHealthy) process.send?.({ case: 'engine_healthy' });
  wasHealthy = isHealthy;
}, 25);
