import { until } from '../../test/support/poll.ts';
import { freePort } from '../../test/support/ports.ts';
import { cli, stateFolder, tearDown } from '../../test/support/road.ts';
import type { Effort } from '../effort.ts';
import type { Figure } from '../report.ts';

/** P7: from the command to the first token, with the simulator. */
export async function start({ rounds }: Effort): Promise<Figure[]> {
  const seconds: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const port = await freePort();
    const began = performance.now();
    cli(['up', '--port', String(port), '--state', stateFolder()], { ENGINE: 'simulator' });
    const url = `http://127.0.0.1:${port}`;
    await until(() => runFirst(url), 'the first token', { everyMs: 50 });
    seconds.push((performance.now() - began) / 1000);
    await tearDown();
  }
  return [{ group: 'P7', name: 'npm start to the first token', unit: 's', goal: 3, rounds: seconds }];
}

async function runFirst(url: string): Promise<boolean> {
  const response = await fetch(`${url}/v1/models`);
  const { data } = (await response.json()) as { data: { id: string }[] };
  if (data.length === 0) return false;
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'default',
      stream: true,
      max_tokens: 1,
      messages: [{ role: 'user', content: 'Go.' }],
    }),
  });
  return (await answer.text()).includes('[DONE]');
}
