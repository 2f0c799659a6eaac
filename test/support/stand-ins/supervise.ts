import { fileURLToPath } from 'node:url';
import { runSupervisor } from '../../../src/supervisor/index.ts';

// The real supervisor with the stand-in worker.
const worker = fileURLToPath(new URL('./worker.ts', import.meta.url));
process.exit(await runSupervisor(process.env, { worker: [worker] }));
