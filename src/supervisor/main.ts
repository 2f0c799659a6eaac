import { runMain } from '../process/index.ts';
import { runSupervisor } from './index.ts';

// The supervisor as a process: exits with the container's code.
await runMain(() => runSupervisor(process.env));
