import { cruise, format, type ICruiseResult } from 'dependency-cruiser';
import extractDepcruiseOptions from 'dependency-cruiser/config-utl/extract-depcruise-options';
import { circlesOfRooms, roomImports } from './circles.ts';

/** `npm run check`: who imports whom, against the table of rooms, and no circles of files or rooms. */

const options = await extractDepcruiseOptions('./scripts/dependency-cruiser.js');
const result = (await cruise(['src', 'test', 'scripts', 'bench'], options)).output as ICruiseResult;
const { output } = await format(result, { outputType: 'err-long' });
console.log(String(output).trim());
const circles = circlesOfRooms(roomImports(result.modules));
for (const circle of circles)
  console.log(
    [
      'These rooms import each other in a circle. Move what one of them needs, or hand it in:',
      ...circle.map(({ from, to }) => `  ${from} → ${to}`),
    ].join('\n'),
  );
if (result.summary.error > 0 || circles.length > 0) process.exitCode = 1;
