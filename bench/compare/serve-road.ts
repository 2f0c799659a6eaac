import { pathToFileURL } from 'node:url';
import { type RoadSupport, startRoad } from '../road.ts';

/** A road of the checkout that is named, in a process of its own: says as one line of JSON where it is, and ends with its input. */

const checkout = pathToFileURL(`${process.argv[2]}/`);
const support = (await import(new URL('test/support/road.ts', checkout).href)) as RoadSupport & {
  tearDown(): Promise<void>;
};
const end = () => void support.tearDown().finally(() => process.exit(0));
process.stdin.on('end', end).resume();
process.stdout.write(`${JSON.stringify(await startRoad(256, support))}\n`);
