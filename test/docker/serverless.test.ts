import { afterEach, expect, it } from 'vitest';
import { FakeServerless } from '../support/fake-serverless.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { docker, health, logOf, newName, removeAll, start, stateOf } from './containers.ts';
import { IMAGES } from './images.ts';

/** The worker's image in a serverless endpoint, in the place of RunPod's own: with the variables that RunPod sets. */
let platform: FakeServerless;
afterEach(() => {
  platform.close();
  removeAll();
});

it('takes jobs from RunPod’s queue, with nothing set but the model, and ends in order', async () => {
  platform = new FakeServerless();
  const variables = {
    ...(await platform.listen()),
    MODEL_NAME: 'tiny',
    // There is no vLLM here, and the port is the host's.
    ...{ ENGINE: 'simulator', VLLM_PORT: String(await freePort()) },
  };
  const given = Object.entries(variables).flatMap(([key, value]) => ['--env', `${key}=${value}`]);
  const name = await start(newName('serverless'), '--network', 'host', ...given, IMAGES.worker);
  const job = platform.submit('job', { prompt: 'Hello', sampling_params: { max_tokens: 4 }, stream: true });
  await until(() => platform.isOver('job'), 'the job is over');
  expect(job, await logOf(name)).toMatchObject({ status: 'COMPLETED' });
  expect((job.output as string[]).join('')).toMatch(/data: \[DONE\]\n\n$/);
  expect(platform.of('take')[0]!.query.get('batch_size')).toBe('30');
  await until(async () => (await health(name)).code === 0, 'it is healthy', { everyMs: 300 });
  await docker('stop', '--time', '20', name);
  expect(await stateOf(name), await logOf(name)).toMatchObject({ Status: 'exited', ExitCode: 0 });
  expect(platform.violations).toEqual([]);
});
