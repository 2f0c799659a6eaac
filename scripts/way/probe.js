// Loaded into every process of a road (`--import`) by scripts/way.ts: counts which functions ran since the last
// question, and answers over a socket in the folder WAY_FOLDER. Plain JavaScript, since it loads before anything else.
import { Session } from 'node:inspector';
import { createServer } from 'node:net';
import { join } from 'node:path';

const session = new Session();
session.connect();
session.post('Profiler.enable');
session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

const server = createServer((socket) => {
  session.post('Profiler.takePreciseCoverage', (error, taken) => {
    socket.end(error === null ? JSON.stringify(ranIn(taken.result)) : '[]');
  });
});
server.listen(join(process.env.WAY_FOLDER, `${process.pid}.sock`));
server.unref();

/** The functions that ran, as [bundle, offset]; a module's own body is none. */
function ranIn(scripts) {
  return scripts.flatMap(({ url, functions }) => {
    if (!url.includes('/dist/programs/')) return [];
    const ran = functions.filter(({ ranges }) => ranges[0].count > 0 && ranges[0].startOffset > 0);
    return ran.map(({ ranges }) => [url, ranges[0].startOffset]);
  });
}
