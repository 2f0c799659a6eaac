import { afterAll, afterEach, it } from 'vitest';
import { tearDown } from '../support/road.ts';
import { expectRolled, makeImages, ROLLING_POOL, removeImages } from '../support/rollout-road.ts';
import { isOurs, WORKER_IMAGE } from './cluster.ts';
import { endFleets, PodFleet, TOKEN } from './fleet.ts';

/** A pool of pods goes from image to image. */
afterEach(endFleets);
afterAll(tearDown);

it.runIf(isOurs)(
  'goes to another image, and from a broken one back, and no stream fails or is counted twice',
  { timeout: 600_000 },
  async () => {
    const images = makeImages(WORKER_IMAGE);
    try {
      const pool = { ...ROLLING_POOL, image: images.first };
      const fleet = await PodFleet.start({ pool });
      const write = (image: string) => fleet.write({ pool: { ...ROLLING_POOL, image } });
      const why = /exit code 2: VLLM_STARTUP_TIMEOUT="soon"/;
      await expectRolled({ url: fleet.url, token: TOKEN, configId: 'cfg', images, write, why });
    } finally {
      // Pods that run keep theirs.
      removeImages(images);
    }
  },
);
